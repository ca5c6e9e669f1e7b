"""How long a refit takes to read its votes, and its other parts: `python -m benchmarks.reading [VOTES] [NEW]`.

Votes are generated in a scratch embedded database: 50,000 annotators of very unequal zeal, 200 models, a battle each,
30 days. Times of reading are of a whole `load_fit_input`, from the first statement to arrays that can be fitted; memory
is the process's peak over what it held before. Then come whole refits that keep the votes: of all, with nothing new,
and with NEW votes more.
"""

import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, text

from app.database.embedded.server import EmbeddedServer
from app.database.engine import Database
from app.database.schema import upgrade
from app.policy.changes import set_policy
from app.policy.service import current_policy
from app.refits.load import load_fit_input
from app.refits.runner import RefitRunner
from app.refits.service import find_refit, request_refit
from app.votes.kept import KeptVotes
from benchmarks.size import sized

VOTES, NEW = sized((5_000_000, 1_000_000), (20_000, 2_000))
ANNOTATORS, MODELS = sized((50_000, 200), (200, 20))

_NAMES = f"""
INSERT INTO models (name) SELECT 'model ' || i FROM generate_series(1, {MODELS}) AS i;
INSERT INTO annotators (key, public_id) SELECT 'k' || i, gen_random_uuid() FROM generate_series(1, {ANNOTATORS}) AS i
"""  # noqa: S608  only this module's own numbers
# Ids that grow as those made by the service do; one annotator in 20 votes at random.
_VOTES = f"""
INSERT INTO votes (id, annotator_id, model_a_id, model_b_id, outcome, battle_id, received_at)
SELECT (lpad(to_hex(1760000000000 + i), 12, '0') || '7' || substr(md5(i::text), 1, 19))::uuid,
       annotator, a, b,
       CASE WHEN random() < 0.25 THEN 2
            WHEN random() < 1 / (1 + exp((b - a) * CASE annotator % 20 WHEN 0 THEN 0 ELSE 0.02 END)) THEN 0
            ELSE 1 END,
       'battle ' || i, now() - random() * interval '30 days'
FROM (
    SELECT i, annotator, a, 1 + (a + d) % {MODELS} AS b
    FROM (SELECT i, 1 + floor({ANNOTATORS} * power(random(), 2))::int AS annotator,
                 1 + floor(random() * {MODELS})::int AS a, floor(random() * {MODELS - 1})::int AS d
          FROM generate_series(CAST(:first AS int), CAST(:last AS int)) AS i) AS drawn
) AS pairs
"""  # noqa: S608  only this module's own numbers
_RETRACTIONS = """
WITH retraction AS (
    INSERT INTO retractions (id, target, target_id, reason, retracted_by, votes)
    VALUES (gen_random_uuid(), 'annotator', 'x', 'a benchmark', 'a benchmark', 0) RETURNING id
)
INSERT INTO retracted_votes (vote_id, retraction_id)
SELECT votes.id, retraction.id FROM votes, retraction WHERE annotator_id % 50 = 0
"""


@contextmanager
def scratch_database() -> Iterator[Database]:
    folder = Path(tempfile.mkdtemp(prefix="stable-arena-bench-"))
    folder.chmod(0o711)  # root's server runs as another user
    server = EmbeddedServer(folder / "data")
    try:
        url = server.start()
        upgrade(url)
        with Database(url) as database:
            yield database
    finally:
        server.release()
        shutil.rmtree(folder)


def analyse(database: Database) -> None:
    """Leave nothing for autovacuum to do meanwhile."""
    with database.begin() as conn:
        conn.execute(text("ANALYZE"))


def fill(conn: Connection, votes: int) -> None:
    for statement in _NAMES.split(";"):
        conn.execute(text(statement))
    conn.execute(text(_VOTES), {"first": 1, "last": votes})


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(database: Database, what: str) -> None:
    before = peak_megabytes()
    began = time.perf_counter()
    with database.read() as conn:
        fit_input = load_fit_input(conn)
    seconds = time.perf_counter() - began
    left_out = f"{fit_input.retracted:,} retracted, {fit_input.over_quota:,} over quota"
    memory = f"+{peak_megabytes() - before:.0f} MB"
    print(f"{what:28} {seconds:6.2f} s  {fit_input.votes_read / seconds / 1e6:5.2f} M votes/s  {memory:>8}  {left_out}")


def refit(database: Database, runner: RefitRunner, what: str) -> None:
    """Refit, and print how long each part took."""
    with database.begin() as conn:
        refit_id = request_refit(
            conn, trigger="command", requested_by="a benchmark", accept_exclusions=True, reason="a benchmark"
        )
    runner.start()
    began = time.perf_counter()
    runner.run_next(scheduled=False)
    seconds = time.perf_counter() - began
    with database.read() as conn:
        done = find_refit(conn, refit_id)
    parts = ", ".join(f"{name} {value:.2f}" for name, value in done.seconds.items())
    print(f"{what:28} {seconds:6.2f} s  {done.state}: {parts}")


def refit_as_votes_come(database: Database, votes: int, new: int) -> None:
    with tempfile.TemporaryDirectory(prefix="stable-arena-bench-") as folder:
        runner = RefitRunner(database, lease_seconds=30, kept=KeptVotes(Path(folder)))
        refit(database, runner, "refit, all votes")
        refit(database, runner, "refit, nothing new")
        with database.begin() as conn:
            conn.execute(text(_VOTES), {"first": votes + 1, "last": votes + new})
        refit(database, runner, f"refit, {new:,} new")
        runner.stop()


def set_quota(database: Database, votes_per_day: int) -> None:
    with database.begin() as conn:
        policy = current_policy(conn).settings.model_copy(update={"max_votes_per_day": votes_per_day})
        set_policy(conn, policy, reason="a benchmark", created_by="a benchmark")


if __name__ == "__main__":
    n_votes, n_new = (int(sys.argv[i]) if len(sys.argv) > i else usual for i, usual in ((1, VOTES), (2, NEW)))
    with scratch_database() as scratch:
        with scratch.begin() as connection:
            fill(connection, n_votes)
        analyse(scratch)
        measure(scratch, "all votes, cold")
        measure(scratch, "all votes")
        refit_as_votes_come(scratch, n_votes, n_new)
        with scratch.begin() as connection:
            connection.execute(text(_RETRACTIONS))
        analyse(scratch)
        measure(scratch, "one in 50 retracted")
        for quota in (1_000, 10):
            set_quota(scratch, quota)
            measure(scratch, f"and at most {quota:,} a day")
