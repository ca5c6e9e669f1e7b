"""How long a refit takes to read its votes: `python -m benchmarks.reading [VOTES]`, in a scratch embedded database.

Votes are generated in the database: 50,000 annotators of very unequal zeal, 200 models, a battle each, 30 days. Times
are of a whole `load_fit_input`, from the first statement to arrays that can be fitted; memory is the process's peak
over what it held before.
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
from app.policy.service import current_policy, set_policy
from app.refits.load import load_fit_input

VOTES = 5_000_000
ANNOTATORS = 50_000
MODELS = 200

_NAMES = f"""
INSERT INTO models (name) SELECT 'model ' || i FROM generate_series(1, {MODELS}) AS i;
INSERT INTO annotators (key, public_id) SELECT 'k' || i, gen_random_uuid() FROM generate_series(1, {ANNOTATORS}) AS i
"""  # noqa: S608  only this module's own numbers
# Ids that grow as those made by the service do.
_VOTES = f"""
INSERT INTO votes (id, annotator_id, model_a_id, model_b_id, outcome, battle_id, received_at)
SELECT (lpad(to_hex(1760000000000 + i), 12, '0') || '7' || substr(md5(i::text), 1, 19))::uuid,
       1 + floor({ANNOTATORS} * power(random(), 2))::int, a, 1 + (a + floor(random() * {MODELS - 1}))::int % {MODELS},
       floor(random() * 4)::int, 'battle ' || i, now() - random() * interval '30 days'
FROM (SELECT i, 1 + floor(random() * {MODELS})::int AS a FROM generate_series(1, :votes) AS i) AS pairs
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
        conn.execute(text("ANALYZE votes, retracted_votes"))


def fill(conn: Connection, votes: int) -> None:
    for statement in _NAMES.split(";"):
        conn.execute(text(statement))
    conn.execute(text(_VOTES), {"votes": votes})


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


def set_quota(database: Database, votes_per_day: int) -> None:
    with database.begin() as conn:
        policy = current_policy(conn).settings.model_copy(update={"max_votes_per_day": votes_per_day})
        set_policy(conn, policy, reason="a benchmark", created_by="a benchmark")


if __name__ == "__main__":
    n_votes = int(sys.argv[1]) if len(sys.argv) > 1 else VOTES
    with scratch_database() as scratch:
        with scratch.begin() as connection:
            fill(connection, n_votes)
        analyse(scratch)
        measure(scratch, "all votes, cold")
        measure(scratch, "all votes")
        with scratch.begin() as connection:
            connection.execute(text(_RETRACTIONS))
        analyse(scratch)
        measure(scratch, "one in 50 retracted")
        for quota in (1_000, 10):
            set_quota(scratch, quota)
            measure(scratch, f"and at most {quota:,} a day")
