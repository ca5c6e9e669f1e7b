"""Measure `stable-arena import`: a million votes of CSV, with battles and without, into an embedded database.

`python -m benchmarks.imports [votes] [--beside N] [--parts]`. Prints the seconds of the whole command, rows a second,
the seconds that the process itself was computing (the rest is PostgreSQL's, and other users of the machine), and its
peak memory. Beside it a bare COPY of as many votes into the same table, with all its indexes, in one transaction that
is rolled back. `--beside` puts N votes on record first, with battles whose names lie anywhere among the new ones.
`--parts` repeats the COPY in another order, in chunks, and without each index or check, to say what these cost.
"""

import argparse
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from itertools import count as count_from
from pathlib import Path
from typing import cast

import numpy as np
import polars as pl
import psycopg
from sqlalchemy import text
from uuid_utils import compat

from app.database.engine import Database
from app.database.opening import open_database
from benchmarks.size import sized

MODELS, ANNOTATORS = sized((200, 50_000), (20, 100))
WINNERS = np.array(["model_a", "model_b", "tie", "tie (bothbad)"])
CHUNK = 50_000


@dataclass(frozen=True)
class Measured:
    """One run: wall seconds of the whole command, its own computing, and the most memory that it held."""

    seconds: float
    computing: float
    megabytes: float
    created: int


# The process says it of itself: what wait4 says of a child's memory includes the child's children, PostgreSQL.
COMMAND = """
import atexit, resource, sys
def tell():
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, file=sys.stderr)
atexit.register(tell)
from app.cli.command import run
run()
"""
_NAMES = f"""
INSERT INTO models (name) SELECT 'model-' || i FROM generate_series(0, {MODELS - 1}) AS i;
INSERT INTO annotators (key, public_id)
SELECT 'annotator-' || i, gen_random_uuid() FROM generate_series(0, {ANNOTATORS - 1}) AS i
"""  # noqa: S608  only this module's own numbers
_VOTES = """
INSERT INTO votes (id, annotator_id, model_a_id, model_b_id, outcome, battle_id, voted_at)
SELECT (lpad(to_hex(1760000000000 + i), 12, '0') || '7000' || '8' || substr(md5(i::text), 1, 15))::uuid,
    1 + floor(:annotators * power(random(), 2.5))::int, a, 1 + (a + floor(random() * (:models - 1))::int) % :models,
    floor(random() * 4)::int, md5('earlier ' || i), timestamptz '2025-01-01' + i * interval '2 seconds'
FROM (SELECT i, 1 + floor(random() * :models)::int AS a FROM generate_series(1, :votes) AS i) AS lefts
"""
_INDEXES = """
SELECT indexrelid::regclass::text, pg_get_indexdef(indexrelid), conname
FROM pg_index LEFT JOIN pg_constraint ON conindid = indexrelid WHERE indrelid = 'votes'::regclass ORDER BY 1
"""
_CHECKS = "SELECT conname FROM pg_constraint WHERE conrelid = 'votes'::regclass AND contype = 'c' ORDER BY 1"


def make_votes(count: int, *, battles: bool, seed: int) -> pl.DataFrame:
    """Return votes of a plausible arena: few annotators cast most of them, and the names of battles are random."""
    random = np.random.default_rng(seed)
    model_a = random.integers(0, MODELS, count)
    columns = {
        "annotator": (ANNOTATORS * random.random(count) ** 2.5).astype(int),
        "model_a": model_a,
        "model_b": (model_a + random.integers(1, MODELS, count)) % MODELS,
        "winner": random.integers(0, 4, count),
        "timestamp": np.datetime64("2026-01-01", "ms") + random.integers(0, 10**10, count),
    }
    if battles:
        columns["battle_id"] = np.array([random.bytes(16).hex() for _ in range(count)])
    return pl.DataFrame(columns)


def write_votes(path: Path, count: int, *, battles: bool) -> None:
    """Write votes in the service's own format."""
    votes = make_votes(count, battles=battles, seed=int(battles))
    named: dict[str, pl.Expr | pl.Series] = {
        "annotator": pl.format("annotator-{}", "annotator"),
        "model_a": pl.format("model-{}", "model_a"),
        "model_b": pl.format("model-{}", "model_b"),
        "winner": pl.Series(WINNERS[votes["winner"]]),
        "timestamp": pl.col("timestamp").dt.to_string("%Y-%m-%dT%H:%M:%SZ"),
    }
    votes.with_columns(**named).write_csv(path)


def run_import(path: Path, data_dir: Path) -> Measured:
    """Import a file by the command line, in a process of its own that is measured."""
    command = [sys.executable, "-c", COMMAND, "import", str(path), "--again", "--format", "json"]
    environment = {**os.environ, "STABLE_ARENA_DATA_DIR": str(data_dir)}
    environment.pop("STABLE_ARENA_DATABASE_URL", None)
    before = time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    seconds = time.perf_counter() - before
    computing, megabytes = map(float, done.stderr.split()[-2:])
    return Measured(seconds, computing, megabytes, json.loads(done.stdout)["created"])


def record_votes(database: Database, count: int) -> None:
    """Put votes on record, the indexes after the rows."""
    with database.begin() as conn:
        for statement in _NAMES.split(";"):
            conn.execute(text(statement))
        conn.execute(text("SET LOCAL maintenance_work_mem = '512MB'"))
        indexes = conn.execute(text(_INDEXES)).all()
        for name, _, constraint in indexes:
            conn.execute(text(f"ALTER TABLE votes DROP CONSTRAINT {name}" if constraint else f"DROP INDEX {name}"))
        conn.execute(text(_VOTES), {"votes": count, "models": MODELS, "annotators": ANNOTATORS})
        for name, definition, constraint in indexes:
            conn.execute(text(definition))
            if constraint:
                conn.execute(text(f"ALTER TABLE votes ADD CONSTRAINT {name} PRIMARY KEY USING INDEX {name}"))
    with database.statements() as conn:
        conn.execute(text("VACUUM ANALYZE votes"))


def copy_votes(database: Database, votes: pl.DataFrame, *, before: str = "", chunk: int | None = None) -> float:
    """Return the seconds of a bare COPY into `votes`, after a statement, in a transaction that is rolled back."""
    numbered = votes.select(
        pl.Series("id", [str(compat.uuid7()) for _ in range(votes.height)]),
        *(pl.col(name) + 1 for name in ("annotator", "model_a", "model_b")),
        "winner", "timestamp", *(["battle_id"] if "battle_id" in votes.columns else []),
    )  # fmt: skip
    columns = ("id", "annotator_id", "model_a_id", "model_b_id", "outcome", "voted_at", "battle_id")
    statement = f"COPY votes ({', '.join(columns[: numbered.width])}) FROM STDIN (FORMAT csv)"
    pieces = [numbered] if chunk is None else [one.sort("battle_id") for one in numbered.iter_slices(chunk)]
    texts = [piece.write_csv(include_header=False).encode() for piece in pieces]
    with database.engine.connect() as conn:
        driver = cast("psycopg.Connection", conn.connection.driver_connection)
        if before:
            conn.execute(text(before))
        began = time.perf_counter()
        with driver.cursor() as cursor:
            for one in texts:
                with cursor.copy(statement) as copy:
                    copy.write(one)
        seconds = time.perf_counter() - began
        conn.rollback()
    return seconds


def show_parts(database: Database, count: int) -> None:
    """Print what the order, chunks, each index and each check add to a COPY."""

    def measure(what: str, *, ordered: bool = True, before: str = "", chunk: int | None = None) -> None:
        votes = make_votes(count, battles=True, seed=next(seeds))
        votes = votes.sort("battle_id") if ordered else votes
        print(f"  {what:44} {copy_votes(database, votes, before=before, chunk=chunk):6.1f} s")

    seeds = count_from(10)
    with database.read() as conn:
        indexes, checks = conn.execute(text(_INDEXES)).all(), conn.execute(text(_CHECKS)).scalars().all()
    dropped = [f"ALTER TABLE votes DROP CONSTRAINT {n}" if c else f"DROP INDEX {n}" for n, _, c in indexes]
    measure("COPY in the order of battles")
    measure("in the order of the file", ordered=False)
    measure(f"in chunks of {CHUNK:,}, each in order", ordered=False, chunk=CHUNK)
    for (name, _, _), drop in zip(indexes, dropped, strict=True):
        measure(f"without {name}", before=drop)
    measure("without any index", before=";".join(dropped))
    measure("without checks", before=";".join(f"ALTER TABLE votes DROP CONSTRAINT {name}" for name in checks))


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure imports.")
    parser.add_argument("votes", nargs="?", type=int, default=sized(1_000_000, 5_000))
    parser.add_argument("--beside", type=int, default=0)
    parser.add_argument("--parts", action="store_true")
    given = parser.parse_args()
    spawn = multiprocessing.get_context("spawn")
    folder = Path(tempfile.mkdtemp(prefix="stable-arena-bench-"))
    folder.chmod(0o711)  # the embedded server runs as another user under root
    try:
        with open_database(None, folder / "data") as database:
            record_votes(database, given.beside)
        print(
            f"{given.votes:,} votes of CSV beside {given.beside:,}, {MODELS} models, {ANNOTATORS:,} annotators,"
            f" {os.cpu_count()} cores"
        )
        for battles in (False, True):
            name = "with battle_id" if battles else "without battle_id"
            path = folder / f"{'battles' if battles else 'plain'}.csv"
            # In a process of its own: a child process inherits the peak memory of its parent.
            writing = spawn.Process(target=write_votes, args=(path, given.votes), kwargs={"battles": battles})
            writing.start()
            writing.join()
            done = run_import(path, folder / "data")
            assert done.created == given.votes  # noqa: S101
            with open_database(None, folder / "data") as database:
                bare = copy_votes(database, make_votes(given.votes, battles=battles, seed=2))
            own = f"{done.computing:5.1f} s computing, {done.megabytes:4.0f} MB at most"
            rate = f"{given.votes / done.seconds:9,.0f} rows/s"
            print(
                f"{name:18} {done.seconds:6.1f} s  {rate}  {own}; bare COPY {bare:5.1f} s, {done.seconds / bare:.2f} ×"
            )
        if given.parts:
            with open_database(None, folder / "data") as database:
                show_parts(database, given.votes)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
