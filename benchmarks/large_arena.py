"""A large arena as refits would have published it, written straight into the database: 500 models, 100,000 annotators.

No fit is made, so it is there within seconds. Model 1 is the best, and neighbours are a point apart. In several groups
every model has votes with those of its group alone; the last model of all lies 3,000 points below.
"""

import json
from itertools import pairwise

from sqlalchemy import text

from app.database.engine import Database
from app.leaderboard.charts import draw_newest
from benchmarks.size import sized

MODELS, ANNOTATORS, VOTES = sized((500, 100_000, 500_000), (50, 500, 5_000))

_NAMES = f"""
INSERT INTO models (name, organization, license)
SELECT 'provider-' || i % 40 || '/model-' || i || '-instruct', 'provider ' || i % 40, 'Apache 2.0'
FROM generate_series(1, :models) AS i;
INSERT INTO annotators (key, public_id, rule_standing)
SELECT 'annotator-' || i, gen_random_uuid(), (ARRAY['active', 'pending', 'flagged'])[1 + (i % 3 + i % 50 / 49) % 3]
FROM generate_series(1, {ANNOTATORS}) AS i;
INSERT INTO votes (id, annotator_id, model_a_id, model_b_id, outcome, battle_id)
SELECT gen_random_uuid(), 1 + floor({ANNOTATORS} * power(random(), 2))::int, a,
    1 + (a + floor(random() * (:models - 1)))::int % :models, floor(random() * 3)::int, 'battle ' || i
FROM (SELECT i, 1 + floor(random() * :models)::int AS a FROM generate_series(1, {VOTES}) AS i) AS lefts
"""  # noqa: S608  only this module's own numbers
_SNAPSHOT = """
WITH refit AS (
    INSERT INTO refits (id, state, trigger, requested_by, finished_at)
    VALUES (gen_random_uuid(), 'done', 'schedule', 'a benchmark', clock_timestamp()) RETURNING id
)
INSERT INTO snapshots (id, refit_id, policy_version, settings, diagnostics, votes_read, votes_used, vote_set,
    votes_hash, code_version, published_at)
SELECT gen_random_uuid(), id, 1, '{"min_votes": 50, "min_ability": 0.2}', CAST(:diagnostics AS jsonb), :votes, :votes,
    pg_current_snapshot()::text, md5(random()::text), '1', clock_timestamp()
FROM refit RETURNING id
"""
_LEADERBOARD = """
INSERT INTO snapshot_models (snapshot_id, method, tag, model_id, score, se, lower, upper, rank, best_rank, worst_rank,
    rank_set_best, rank_set_worst, votes, wins, ties, losses, component, identified, class_rank)
SELECT :snapshot, method, tag, model, score, 4, score - 8, score + 8, place,
    greatest(place - 8, 1), least(place + 8, count), greatest(place - 15, 1), least(place + 15, count),
    2000, 900, 200, 900, model % :groups, TRUE, 1 + place / 8
FROM (
    SELECT method, tag, model, row_number() OVER part AS place,
        count(*) OVER (PARTITION BY method, tag, model % :groups) AS count,
        1250 - row_number() OVER part - CASE WHEN :groups > 1 AND model = :models THEN 3000 ELSE 0 END AS score
    FROM models, LATERAL (SELECT id AS model) AS m,
        (VALUES ('am-elo', ''), ('m-elo', ''), ('m-elo-all', ''), ('elo', ''), ('am-elo', 'code'), ('am-elo', 'maths'))
        AS boards (method, tag)
    WINDOW part AS (PARTITION BY method, tag, model % :groups ORDER BY model + 3 * random())
) AS placed
"""
# A tag for each group, on all its votes and no others.
_GROUP_TAGS = """
INSERT INTO snapshot_models SELECT (jsonb_populate_record(m,
    jsonb_build_object('tag', 'en-' || chr(97 + component) || chr(110 + component), 'component', 0))).*
FROM snapshot_models m WHERE snapshot_id = :snapshot AND method = 'am-elo' AND tag = '' AND :groups > 1
"""
_MATCHUPS = """
INSERT INTO snapshot_matchups (snapshot_id, model_a_id, model_b_id, wins_a, ties, wins_b, predicted, lower, upper)
SELECT :snapshot, a.id, b.id, 3 + a.id % 3, 1, 2, p, p - 0.02, p + 0.02
FROM models a JOIN models b ON a.id < b.id AND a.id % :groups = b.id % :groups,
    LATERAL (SELECT 1 / (1 + power(10, (a.id - b.id) / 400.0)) AS p) AS odds
"""
_ANNOTATORS = """
INSERT INTO snapshot_annotators (snapshot_id, annotator_id, ability, se, probability_low, votes, rule_standing,
    standing)
SELECT :snapshot, id, ability, 0.2, 0.1, 5 + (1000 * power(random(), 4))::int, rule_standing,
    CASE WHEN id % 7 = :turn AND rule_standing = 'active' THEN 'flagged' ELSE rule_standing END
FROM (
    SELECT *, CASE WHEN rule_standing <> 'pending' THEN exp(0.3 * (random() + random() + random() - 1.5)) END AS ability
    FROM annotators
) AS able
"""


def _diagnostics(models: int) -> str:
    names = [f"provider-{i % 40}/model-{i}-instruct" for i in range(1, models + 1)]
    gap = {"gap": 1.0, "votes": 12, "annotators": 3, "tied": False}
    near = [{"above": above, "below": below, **gap} for above, below in pairwise(names)]
    counts = {"read": VOTES, "used": VOTES - 9000, "pending": 9000, "excluded": 0, "retracted": 0, "over_quota": 0}
    rules = {"ability": {"annotators": 40, "votes": 4000}}
    return json.dumps({"fragility": near, "votes": counts, "rules": rules, "interval": "clustered", "warnings": []})


def publish_large_arena(database: Database, snapshots: int = 12, *, models: int = MODELS, groups: int = 1) -> None:
    """Fill an empty database with votes and snapshots; the newest has its charts."""
    size = {"models": models, "groups": groups}
    with database.begin() as conn:
        for statement in _NAMES.split(";"):
            conn.execute(text(statement), size)
    for turn in range(snapshots):
        with database.begin() as conn:
            values = {"diagnostics": _diagnostics(models), "votes": VOTES + turn}
            snapshot = conn.execute(text(_SNAPSHOT), values).scalar_one()
            boards = (_LEADERBOARD, _GROUP_TAGS)
            whole = (*boards, _MATCHUPS, _ANNOTATORS) if turn >= snapshots - 2 else boards
            for statement in whole:
                conn.execute(text(statement), {"snapshot": snapshot, "turn": turn % 7, **size})
    with database.begin() as conn:
        conn.execute(text("ANALYZE"))
    draw_newest(database)
