"""What is published: leaderboards with their snapshot's current state, pairs of models, and one model's history."""

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, Connection, RowMapping, and_, cast, func, or_, select, text, tuple_, union_all
from sqlalchemy.dialects.postgresql import aggregate_order_by

from app.database.tables import models, snapshot_annotators, snapshot_matchups, snapshot_models, snapshots
from app.snapshots.queries import is_archived, placed_columns

# Every request for a leaderboard runs this statement. Plain text is the cheapest, and no column in it is large.
# Refits end in about the order of their requests, so the last 20 hold the one that ended last. One that ended in the
# future, while the clock was ahead, delays no other.
_STATE = """
    SELECT s.id, s.number, s.published_at, s.policy_version, s.votes_read, s.votes_used, s.votes_sealed,
        s.votes_hash, s.vote_set,
        extract(epoch FROM clock_timestamp() - s.published_at)::float8 AS age_seconds,
        (SELECT settings FROM policies ORDER BY version DESC LIMIT 1) AS policy,
        (SELECT max(finished_at) FROM (
            SELECT finished_at FROM refits WHERE finished_at <= clock_timestamp() ORDER BY requested_at DESC LIMIT 20
        ) r) AS last_refit_at,
        (SELECT md5(coalesce(string_agg(
            ROW(id, name, organization, license, link, released, archived_at, archive_reason, unreleased)::text,
            ',' ORDER BY id), '')) FROM models)
            || (SELECT md5(coalesce(string_agg(
                ROW(a.*, a.valid_from > now(), a.valid_until > now())::text, ',' ORDER BY id), ''))
                FROM model_aliases AS a)
            || coalesce((SELECT max(id) FROM model_merges), 0)
            || CASE WHEN EXISTS (SELECT FROM snapshot_fragility AS f WHERE f.snapshot_id = s.id) THEN '+' ELSE '' END
            || CASE WHEN EXISTS (SELECT FROM snapshot_charts AS c WHERE c.snapshot_id = s.id) THEN '*' ELSE '' END
            AS models_hash
    FROM snapshots s
"""
_AT_ONCE = 250
_NEWEST = text(f"{_STATE} ORDER BY s.number DESC LIMIT 1")
_NEWEST_AS_OF = text(f"{_STATE} WHERE s.published_at <= :as_of ORDER BY s.number DESC LIMIT 1")
_ONE = text(f"{_STATE} WHERE s.id = CAST(:id AS uuid) OR s.number = CAST(:number AS integer)")


def find_state(
    conn: Connection, *, snapshot: UUID | int | None = None, as_of: datetime | None = None
) -> RowMapping | None:
    """Return a snapshot and its current state: by default of the newest snapshot, or of the newest at a time.

    `id, number, published_at, policy_version, votes_read, votes_used, votes_sealed, votes_hash, vote_set`;
    `age_seconds`, by the database's clock, below 0 for one from the future; `policy`, the settings in force;
    `last_refit_at`, when the last refit ended; `models_hash`, which changes when anything that is shown of models
    changes, their names, aliases and merges among it, and when the snapshot's fragility and charts are there. None
    where there is no such snapshot.
    """
    if snapshot is not None:
        by_id = isinstance(snapshot, UUID)
        found = conn.execute(_ONE, {"id": snapshot if by_id else None, "number": None if by_id else snapshot})
    elif as_of is not None:
        found = conn.execute(_NEWEST_AS_OF, {"as_of": as_of})
    else:
        found = conn.execute(_NEWEST)
    return found.mappings().one_or_none()


def list_components(conn: Connection, snapshot_id: UUID) -> Sequence[RowMapping]:
    """Return the components of every leaderboard of a snapshot, by method, tag ("" means all votes) and component.

    `votes` between its models; `members`, the models' numbers; how many are shown (`models`) and `ranked`.
    """
    c = snapshot_models.c
    shown = and_(~is_archived(snapshot_id), ~models.c.unreleased)
    ranked = and_(or_(c.identified, c.class_rank.is_not(None)), ~c.provisional)
    group = c.method, c.tag, c.component
    statement = (
        select(
            *group,
            cast(func.sum(c.votes) / 2, BigInteger).label("votes"),
            func.array_agg(aggregate_order_by(c.model_id, c.model_id)).label("members"),
            func.count().filter(shown).label("models"),
            func.count(c.rank).filter(ranked).label("ranked"),
        )
        .join_from(snapshot_models, models, models.c.id == c.model_id)
        .where(c.snapshot_id == snapshot_id)
        .group_by(*group)
        .order_by(*group)
    )
    return conn.execute(statement).mappings().all()


def list_matchups(
    conn: Connection,
    snapshot_id: UUID,
    *,
    model_id: int | None = None,
    among: Collection[int] | None = None,
    after: tuple[int, int] | None = None,
    limit: int | None = None,
) -> Iterator[dict[str, Any]]:
    """Yield a snapshot's pairs, or those of one model, or those among some models; by their numbers, after a pair.

    Each row has the columns of `snapshot_matchups` but the snapshot, and the names `model_a` and `model_b`. Pairs with
    a model that is archived or unreleased are left out, except where that model is `model_id`.
    """
    columns = [column for column in snapshot_matchups.c if column.name != "snapshot_id"]
    of_snapshot = select(*columns).where(snapshot_matchups.c.snapshot_id == snapshot_id)
    if model_id is None:
        pairs = of_snapshot.subquery("pairs")
    else:  # each half finds its rows by the primary key; one condition with OR reads every pair
        sides = (snapshot_matchups.c.model_a_id, snapshot_matchups.c.model_b_id)
        pairs = union_all(*(of_snapshot.where(side == model_id) for side in sides)).subquery("pairs")
    side_a, side_b = models.alias(), models.alias()
    c = pairs.c
    shown = [
        or_(and_(~is_archived(snapshot_id, side), ~side.c.unreleased), side.c.id == model_id)
        for side in (side_a, side_b)
    ]
    pair = (c.model_a_id, c.model_b_id)
    statement = (
        select(pairs, side_a.c.name.label("model_a"), side_b.c.name.label("model_b"))
        .join_from(pairs, side_a, side_a.c.id == c.model_a_id)
        .join(side_b, side_b.c.id == c.model_b_id)
        .where(and_(*shown))
        .order_by(*pair)
        .limit(limit)
    )
    if among is not None:
        statement = statement.where(c.model_a_id.in_(among), c.model_b_id.in_(among))
    if after is not None:
        statement = statement.where(tuple_(*pair) > after)
    if among is None and model_id is None and limit is None:
        statement = statement.execution_options(yield_per=_AT_ONCE)  # all pairs of 500 models would take 40 MiB
    # In parts: while psycopg makes rows of what it has received, no other thread runs.
    result = conn.execute(statement)
    names = tuple(result.keys())
    for part in result.partitions(_AT_ONCE):
        for row in part:
            yield dict(zip(names, row, strict=True))


def has_matchups(conn: Connection, snapshot_id: UUID) -> bool:
    """Return whether a snapshot has any pair."""
    rows = select(snapshot_matchups.c.snapshot_id).where(snapshot_matchups.c.snapshot_id == snapshot_id)
    return bool(conn.execute(select(rows.exists())).scalar_one())


# Snapshot numbers have few gaps. So this looks at only as many index entries as it returns points.
_POINTS = text(
    """
    WITH ends AS (SELECT min(number) AS first, max(number) AS last FROM snapshots),
    wanted AS (
        SELECT last - place * (last - first)::bigint / greatest(:last, 1) AS number
        FROM ends, generate_series(0, :last) AS place
    )
    SELECT DISTINCT ON (s.number) s.number, s.published_at, m.score, m.lower, m.upper,
        CASE WHEN (m.identified OR m.class_rank IS NOT NULL) AND NOT m.provisional THEN m.rank END AS rank, m.votes
    FROM wanted
    JOIN LATERAL (
        SELECT id, number, published_at FROM snapshots WHERE snapshots.number <= wanted.number
        ORDER BY snapshots.number DESC LIMIT 1
    ) s ON TRUE
    JOIN snapshot_models m
        ON m.snapshot_id = s.id AND m.method = :method AND m.tag = '' AND m.model_id = :model_id
    ORDER BY s.number
    """
)
_FIGURES = ("score", "se", "lower", "upper", "rank", "best_rank", "worst_rank", "votes")


def list_ranks(conn: Connection, numbers: Collection[int], models_named: Collection[str]) -> Sequence[RowMapping]:
    """Return `number`, `model` and `rank` of some models in some snapshots, on the am-elo leaderboard of all votes.

    A model without a score has no row, and a provisional one no rank.
    """
    c, (rank,) = snapshot_models.c, (column for column in placed_columns() if column.name == "rank")
    statement = (
        select(snapshots.c.number, models.c.name.label("model"), rank)
        .join_from(snapshot_models, snapshots)
        .join(models, models.c.id == c.model_id)
        .where(snapshots.c.number.in_(numbers), models.c.name.in_(models_named))
        .where(c.method == "am-elo", c.tag == "", c.score.is_not(None))
    )
    return conn.execute(statement).mappings().all()


def list_figures(conn: Connection, model_id: int, method: str, *, limit: int) -> Sequence[RowMapping]:
    """Return a model's rows on one method's leaderboards of all votes, the newest first."""
    c = snapshot_models.c
    statement = (
        select(
            snapshots.c.id.label("snapshot_id"),
            snapshots.c.number,
            snapshots.c.published_at,
            *(column for column in placed_columns() if column.name in _FIGURES),
        )
        .join_from(snapshot_models, snapshots)
        .where(c.model_id == model_id, c.method == method, c.tag == "")
        .order_by(snapshots.c.number.desc())
        .limit(limit)
    )
    return conn.execute(statement).mappings().all()


def list_places(conn: Connection, model_id: int, snapshot_id: UUID) -> Sequence[RowMapping]:
    """Return a model's rows on every leaderboard of one snapshot, by method and tag."""
    c = snapshot_models.c
    statement = select(*placed_columns()).where(c.snapshot_id == snapshot_id, c.model_id == model_id)
    return conn.execute(statement.order_by(c.method, c.tag)).mappings().all()


def list_points(conn: Connection, model_id: int, method: str, *, most: int) -> Sequence[RowMapping]:
    """Return a model's scores in snapshots spread evenly over all of them, the oldest first."""
    return conn.execute(_POINTS, {"model_id": model_id, "method": method, "last": most - 1}).mappings().all()


_OUT = ("pending", "excluded")


def count_annotator_changes(conn: Connection, before: UUID, after: UUID) -> RowMapping:
    """Count the annotators whose standing differs between two snapshots.

    `entered`: count now, and were absent, pending or excluded before. `newly_excluded`, and their votes as
    `newly_excluded_votes`. `newly_flagged`. `cleared`: neither flagged nor excluded any more.
    """
    old = select(snapshot_annotators).where(snapshot_annotators.c.snapshot_id == before).subquery("old")
    new = select(snapshot_annotators).where(snapshot_annotators.c.snapshot_id == after).subquery("new")
    was, now = func.coalesce(old.c.standing, "pending"), func.coalesce(new.c.standing, "pending")
    excluded = (was != "excluded") & (now == "excluded")
    statement = select(
        func.count().filter(was.in_(_OUT) & now.not_in(_OUT)).label("entered"),
        func.count().filter(excluded).label("newly_excluded"),
        func.coalesce(func.sum(new.c.votes).filter(excluded), 0).label("newly_excluded_votes"),
        func.count().filter((was != "flagged") & (now == "flagged")).label("newly_flagged"),
        func.count().filter((was == "flagged") & now.not_in(("flagged", "excluded"))).label("cleared"),
    ).select_from(old.join(new, old.c.annotator_id == new.c.annotator_id, full=True))
    return conn.execute(statement).mappings().one()
