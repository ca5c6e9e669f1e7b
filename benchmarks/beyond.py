"""Where votes can lie once one table has too many: `python -m benchmarks.beyond [MILLIONS]`.

The same votes, each on a battle of its own, are added in chunks to the table `votes`, to a copy of it in `PARTS` tables
by a hash of the annotator, and to Parquet files by that hash, with the columns that a fit reads. Then they are read as
for a fit; the files of a part are made one first, since `rate FOLDER` wants the votes of an annotator in one file.

Times are microseconds of processor a vote, of this process and of PostgreSQL together, so that a busy machine says the
same. The first million and the last one, which meets larger indexes, have a column each.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from uuid import uuid4

import numpy as np
import polars as pl
import psutil  # type: ignore[import-untyped]  # its stubs are a package of their own
from sqlalchemy import text

from app.database.copying import copy_into
from app.database.engine import Database, driver_of
from benchmarks.reading import ANNOTATORS, MODELS, scratch_database
from benchmarks.size import sized

MILLION, CHUNK, PARTS = sized((1_000_000, 200_000, 16), (2_000, 1_000, 4))
_PARTED = """
CREATE TABLE parted (LIKE votes INCLUDING DEFAULTS INCLUDING CONSTRAINTS) PARTITION BY HASH (annotator_id);
CREATE UNIQUE INDEX ON parted (id, annotator_id);
CREATE UNIQUE INDEX ON parted (battle_id, annotator_id, version) WHERE battle_id IS NOT NULL;
CREATE INDEX ON parted (annotator_id);
CREATE INDEX ON parted (recorded_in)
"""
_PART = f"CREATE TABLE parted_{{0}} PARTITION OF parted FOR VALUES WITH (MODULUS {PARTS}, REMAINDER {{0}})"
_SIZE = """
SELECT pg_total_relation_size('{table}')
    + coalesce((SELECT sum(pg_total_relation_size(relid)) FROM pg_partition_tree('{table}')), 0)
"""
_READ = """
SELECT string_agg(int4send(annotator_id) || int4send(model_a_id) || int4send(model_b_id) || int2send(outcome), '')
FROM {table} WHERE criterion IS NULL
"""


def draw(first: int) -> pl.DataFrame:
    """Draw a chunk of votes, of annotators of very unequal zeal, in the order of their battles."""
    random = np.random.default_rng(first)
    a = random.integers(0, MODELS, CHUNK)
    columns = {
        "annotator_id": (ANNOTATORS * random.random(CHUNK) ** 2).astype(np.int32),
        "model_a_id": a.astype(np.int32),
        "model_b_id": ((a + random.integers(1, MODELS, CHUNK)) % MODELS).astype(np.int32),
        "outcome": random.integers(0, 3, CHUNK).astype(np.int16),
        "battle_id": [f"battle-{number:012}" for number in range(first, first + CHUNK)],
    }
    return pl.DataFrame(columns)


class Clock:
    """The processor's seconds of this process and of a server."""

    def __init__(self, database: Database) -> None:
        with database.read() as conn:
            self._server = psutil.Process(driver_of(conn).info.backend_pid).parent()

    def time(self, work: Callable[[], object]) -> float:
        """Return the seconds that some work takes."""
        before = self._used()
        work()
        return self._used() - before

    def _used(self) -> float:
        processes = [self._server, *self._server.children(recursive=True)]
        return time.process_time() + sum(sum(process.cpu_times()[:4]) for process in processes)


def measure(what: str, chunks: int, clock: Clock, add: Callable[[int], object], read: Callable[[], object]) -> None:
    """Add the chunks, read them, and print a row but for its end, the bytes of a vote."""
    each = [clock.time(partial(add, at * CHUNK)) for at in range(chunks)]
    some, votes = MILLION // CHUNK, chunks * CHUNK
    first, last = (sum(part) / MILLION * 1e6 for part in (each[:some], each[-some:]))
    drawn = clock.time(lambda: draw(0)) / CHUNK * 1e6
    reading = clock.time(read) / votes * 1e6
    print(f"{what:36}{first - drawn:8.2f}{last - drawn:8.2f}{reading:8.2f}", end="", flush=True)


def measure_table(database: Database, table: str, what: str, chunks: int, clock: Clock) -> None:
    def add(first: int) -> None:
        votes = draw(first)
        ids = pl.Series("id", [f"{first + number:012x}7000{uuid4().hex[:16]}" for number in range(CHUNK)])
        with database.begin() as conn:
            copy_into(conn, table, votes.with_columns(ids))

    def read() -> None:
        with database.read() as conn:
            conn.execute(text(_READ.format(table=table))).scalar_one()

    measure(what, chunks, clock, add, read)
    with database.read() as conn:
        print(f"{float(conn.execute(text(_SIZE.format(table=table))).scalar_one()) / chunks / CHUNK:8.0f}")


def measure_files(folder: Path, what: str, chunks: int, clock: Clock) -> None:
    def add(first: int) -> None:
        votes = draw(first).select(pl.all().exclude("battle_id"), part=pl.col("annotator_id").hash() % PARTS)
        for some in votes.partition_by("part"):
            some.drop("part").write_parquet(folder / f"{some['part'][0]}-{first}.parquet")

    def read() -> None:
        for part in range(PARTS):
            files = sorted(folder.glob(f"{part}-*.parquet"))
            pl.scan_parquet(files).sort("annotator_id").sink_parquet(folder / f"joined-{part}.parquet")
            pl.read_parquet(folder / f"joined-{part}.parquet")

    measure(what, chunks, clock, add, read)
    held = sum(file.stat().st_size for file in folder.glob("joined-*.parquet"))
    print(f"{held / chunks / CHUNK:8.0f}")


def main() -> None:
    """Print the table."""
    chunks = int(sys.argv[1] if len(sys.argv) > 1 else 4) * MILLION // CHUNK
    print(f"{chunks * CHUNK / 1e6:g}M votes: processor's µs a vote{'first':>10}{'last':>8}{'read':>8}{'bytes':>8}")
    with scratch_database() as database, tempfile.TemporaryDirectory() as folder:
        clock = Clock(database)
        with database.begin() as conn:
            for statement in (*_PARTED.split(";"), *map(_PART.format, range(PARTS))):
                conn.execute(text(statement))
        measure_table(database, "votes", "one table", chunks, clock)
        measure_table(database, "parted", f"{PARTS} tables by annotator", chunks, clock)
        measure_files(Path(folder), f"{PARTS} files by annotator, joined", chunks, clock)


if __name__ == "__main__":
    main()
