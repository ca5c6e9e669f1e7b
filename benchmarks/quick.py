"""A figure at every change: `make bench QUICK=1`, about a minute for the rows that users feel.

Each row is a ratio to fixed work of the same kind in the same run, which no change of ours makes faster or slower. Row
and yardstick take turns, so that what else the machine does meets both alike, and the least time of each counts. The
table says what is worse or better than `benchmarks/figures.toml` by more than its noise: how far the whole runs on
record differ. A row that looks worse takes as many turns again before it counts. Beyond twice its noise it makes the
exit code 1. Ratios hold on the kind of processor that the file names; on another one none fails.

`ARGS=engine` or `ARGS=service` measures one half. `ARGS=--write` makes several whole runs and writes the file;
`ARGS=--add` puts them beside the runs on record: a rented machine differs more from day to day than within an hour.

There are no counts of instructions: perf has no such counter on the machines that run this, and valgrind takes 17 s for
the import of numpy alone.
"""

import argparse
import json
import logging
import os
import re
import statistics
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path

import httpx
import numpy as np
import polars as pl
import psycopg
from sqlalchemy import text

from app.auth.keys import create_key
from app.cli.logs import log_to_stderr
from app.database.engine import Database
from app.imports.local import import_file
from app.imports.service import ImportOptions
from app.rating.settings import LoopSettings
from app.rating.simulation.worlds import SimulatedVotes, simulate_votes
from app.rating.verdict.round import rate_indexed, run_round
from app.rating.verdict.style import control_style
from app.rating.votes.indexed import IndexedVotes
from app.rating.votes.measures import Features
from app.refits.runner import RefitRunner
from app.refits.service import find_refit, request_refit
from app.votes.rules import OUTCOMES
from benchmarks.ingest import CONNECTIONS, load, require_wrk, served
from benchmarks.measure import ROOT, in_fresh_process
from benchmarks.rating import AM_ELO, am_elo
from benchmarks.reading import scratch_database
from benchmarks.size import SMALL, sized
from benchmarks.worlds import MODELS, fifth, indexed, leaning, long_tail, million

FILE = ROOT / "benchmarks" / "figures.toml"
WHOLE_RUNS, LEAST_NOISE, MOST_NOISES = 5, 0.03, 2.0
IMPORTED, LOAD_SECONDS = sized((100_000, 2), (1_000, 1))

Turn = Callable[[], float]
"""Does some work once and returns the seconds of it that count."""

NUMPY = "numpy on two threads: sort, exp and bincount of 1M numbers"
ROWS = {
    "fit": ("fit of 1M votes, intervals", NUMPY),
    "evidence": ("… with types and tests", NUMPY),
    "long_tail": ("fit of 1M, long tail", NUMPY),
    "features": ("fit of 200,000, 4 features", NUMPY),
    "import": ("import of 100,000 votes", "COPY of as many rows into a table with two indexes"),
    "refit": ("refit of 1M stored votes", NUMPY),
    "page": ("a board of 200, not kept", "Python: 10,000 rows as JSON and as HTML"),
    "vote": (f"a vote, {CONNECTIONS} at once", "an endpoint that reads as much and answers as much"),
}
"""What users wait for, and the yardstick of each row."""


@dataclass(frozen=True)
class Row:
    """The least seconds that a row took, and their ratio to the least of its yardstick."""

    name: str
    seconds: float
    ratio: float


@dataclass(frozen=True)
class Recorded:
    """A row of the file: its ratios in whole runs."""

    runs: tuple[float, ...]
    yardstick: str

    @property
    def ratio(self) -> float:
        """The median of them."""
        return statistics.median(self.runs)

    @property
    def noise(self) -> float:
        """How far a run lies from the median at most, relative to it."""
        return max(LEAST_NOISE, *(abs(run / self.ratio - 1.0) for run in self.runs))

    def excess(self, ratio: float) -> float:
        """Return how much worse a ratio is, in noises; negative if better."""
        return (ratio / self.ratio - 1.0) / self.noise


def read_figures(path: Path = FILE) -> tuple[str, dict[str, Recorded]]:
    """Return the machine that the figures were measured on, and the figures by row."""
    if not path.exists():
        return "", {}
    found = tomllib.loads(path.read_text(encoding="utf-8"))
    rows = {name: Recorded(tuple(row["runs"]), row["yardstick"]) for name, row in found["rows"].items()}
    return found["machine"], rows


def write_figures(machine: str, figures: Mapping[str, Recorded], path: Path = FILE) -> None:
    lines = [
        "# What `make bench QUICK=1` compares with: ratios to fixed work in whole runs. Their median counts.",
        "# `make bench QUICK=1 ARGS=--write`, on a quiet machine, writes this file; `ARGS=--add` adds runs to it.",
        f'machine = "{machine}"',
    ]
    for name, row in figures.items():
        runs = ", ".join(f"{run:.4g}" for run in row.runs)
        lines += ["", f"[rows.{name}]", f"runs = [{runs}]", f'yardstick = "{row.yardstick}"']
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def this_machine() -> str:
    """Return the kind of processor and how many of it there are; a name alone may stand for several kinds."""
    cpuinfo = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    found = dict(re.findall(r"^(model name|cpu family|model)\s*:\s*(.+)", cpuinfo, re.MULTILINE))
    kind = ", ".join(f"{key} {found[key]}" for key in ("cpu family", "model") if key in found)
    return f"{os.cpu_count()} × {found.get('model name', 'unknown')} ({kind})"


MACHINE, FIGURES = ("", {}) if SMALL else read_figures()


def timed(work: Callable[[], object]) -> Turn:
    """Return a turn in which all of the work counts."""

    def turn() -> float:
        began = time.perf_counter()
        work()
        return time.perf_counter() - began

    return turn


def compare(name: str, ours: Turn, theirs: Turn, *, turns: int) -> Row:
    """Let a row and its yardstick take turns, and as many again where the row looks worse than it was."""
    recorded, pairs = FIGURES.get(name), list[tuple[float, float]]()
    for _ in range(2):
        pairs += [(theirs(), ours()) for _ in range(sized(turns, 1))]
        fixed, least = (min(column) for column in zip(*pairs, strict=True))
        if recorded is None or recorded.excess(least / fixed) <= 1.0:
            break
    return Row(name, least, least / fixed)


def numbers() -> Turn:
    """Return what a fit has much of, as numpy does it."""
    generator, pool = np.random.default_rng(0), ThreadPoolExecutor(2)
    key, x = generator.integers(0, 20_000, 1_000_000), generator.normal(size=1_000_000)

    def work(_: int) -> None:
        order = np.argsort(key)
        for _ in range(4):
            np.bincount(key, np.exp(x)[order], 20_000)

    return timed(lambda: list(pool.map(work, range(2))))


def words() -> Turn:
    """Return what a page has much of: dictionaries, and texts put together."""
    rows = [{"name": f"model-{i}", "score": i / 7, "votes": 1000 * i} for i in range(10_000)]

    def work() -> None:
        json.loads(json.dumps(rows))
        "".join(f"<tr><td>{row['name']}</td><td>{row['score']}</td><td>{row['votes']}</td></tr>" for row in rows)

    return timed(work)


def engine() -> Iterator[Row]:
    """Measure fits, in this process."""
    am_elo(simulate_votes(0))  # reads the compiled kernels
    fixed, leant = numbers(), leaning(fifth())
    yield compare("fit", timed(lambda: am_elo(million())), fixed, turns=6)
    yield compare("evidence", timed(lambda: fit_with_evidence(million())), fixed, turns=3)
    yield compare("long_tail", timed(lambda: am_elo(long_tail())), fixed, turns=5)
    yield compare("features", timed(lambda: fit_features(*leant)), fixed, turns=3)


def fit_with_evidence(votes: SimulatedVotes) -> object:
    named = indexed(votes)
    return rate_indexed(named, named.aggregate(), LoopSettings(min_votes=0)).models


def fit_features(votes: IndexedVotes, features: Features) -> object:
    return control_style(run_round(votes.aggregate(), AM_ELO), votes, features).rating.models


_BARE = """
CREATE TABLE bare (annotator int, model_a int, model_b int, outcome smallint, battle text PRIMARY KEY);
CREATE INDEX ON bare (annotator)
"""
_NAMES = """
INSERT INTO models (name) SELECT 'model-' || i FROM generate_series(1, :n_models) AS i;
INSERT INTO annotators (key, public_id)
SELECT 'worker-' || i, gen_random_uuid() FROM generate_series(1, :n_annotators) AS i
"""
_STORE = """
INSERT INTO votes (id, annotator_id, model_a_id, model_b_id, outcome)
SELECT (lpad(to_hex(1760000000000 + i), 12, '0') || '70008' || substr(md5(i::text), 1, 15))::uuid,
    annotator, model_a, model_b, outcome
FROM (SELECT *, row_number() OVER () AS i FROM bare) AS numbered
"""


class Arena:
    """A database for the votes of the long tail, whose names are on record, and a table of fixed work beside them."""

    def __init__(self, database: Database, plain: psycopg.Connection, folder: Path) -> None:
        self.database, self.plain, self.folder = database, plain, folder
        drawn = long_tail()
        winner = np.array(["model_b", "tie", "model_a"])[(2.0 * drawn.outcome).astype(int)]
        columns = {name: getattr(drawn, name) + 1 for name in ("annotator", "model_a", "model_b")}
        self.votes = pl.DataFrame({**columns, "winner": winner}).with_columns(
            outcome=pl.col("winner").replace_strict(OUTCOMES, default=None),
            battle=pl.format("battle-{}", pl.int_range(pl.len()).shuffle(0)),
        )
        plain.execute(_BARE)
        with database.begin() as conn:
            for statement in _NAMES.split(";"):
                conn.execute(text(statement), drawn.sizes)
            self.key = create_key(conn, "a benchmark", ["ingest"])[1]

    def copy(self, votes: pl.DataFrame) -> float:
        """Return the seconds of a COPY into the table of fixed work, which is empty before."""
        lines = votes.select("annotator", "model_a", "model_b", "outcome", "battle").write_csv(include_header=False)
        self.plain.execute("TRUNCATE bare")
        began = time.perf_counter()
        with self.plain.cursor() as cursor, cursor.copy("COPY bare FROM STDIN (FORMAT csv)") as copy:
            copy.write(lines)
        return time.perf_counter() - began

    def import_csv(self, votes: pl.DataFrame) -> float:
        """Return the seconds of an import of a file with these votes."""
        names = {side: pl.format("model-{}", side) for side in ("model_a", "model_b")}
        path, voter = self.folder / f"{votes['battle'][0]}.csv", pl.format("worker-{}", "annotator")
        votes.select("winner", voter.alias("annotator"), pl.col("battle").alias("battle_id"), **names).write_csv(path)
        return timed(lambda: import_file(self.database, path, ImportOptions(), requested_by="a benchmark"))()

    def store(self, votes: pl.DataFrame) -> None:
        """Put votes beside those on record, and leave nothing for autovacuum to do meanwhile."""
        self.copy(votes)
        self.plain.execute(_STORE)
        self.plain.execute("VACUUM ANALYZE votes")

    def refit(self, runner: RefitRunner) -> float:
        """Return the seconds of a refit that reads every vote and publishes."""
        who = "a benchmark"
        with self.database.begin() as conn:
            refit_id = request_refit(conn, trigger="command", requested_by=who, accept_exclusions=True, reason=who)
        seconds = timed(lambda: runner.run_next(scheduled=False))()
        with self.database.read() as conn:
            done = find_refit(conn, refit_id)
        if done.state != "done":
            raise SystemExit(f"the refit ended as {done.state}: {done.detail}")
        return seconds


@contextmanager
def scratch_arena() -> Iterator[Arena]:
    with scratch_database() as database, tempfile.TemporaryDirectory() as folder:
        url = database.url.set(drivername="postgresql").render_as_string(hide_password=False)
        with psycopg.connect(url, autocommit=True) as plain:
            yield Arena(database, plain, Path(folder))


def service() -> Iterator[Row]:
    """Measure what a database has to do, then a service in processes of its own, over HTTP."""
    require_wrk()
    with scratch_arena() as arena:
        slices = arena.votes.iter_slices(IMPORTED)
        first = next(slices)
        imported = partial(next, slices)
        yield compare("import", lambda: arena.import_csv(imported()), lambda: arena.copy(first), turns=3)
        arena.store(pl.concat([first, *slices]))
        runner = RefitRunner(arena.database, lease_seconds=30)
        try:
            yield compare("refit", lambda: arena.refit(runner), numbers(), turns=2)
        finally:
            runner.stop()
        yield from over_http(arena)


def over_http(arena: Arena) -> Iterator[Row]:
    url = arena.database.url.render_as_string(hide_password=False)
    with served("service", url) as ours, served("bare", url) as bare:
        with httpx.Client(base_url=ours, headers={"Accept-Encoding": "gzip"}, timeout=60) as client:
            rows = count(MODELS)  # the same models at another address each time: no answer is kept
            page = timed(lambda: client.get("/", params={"rows": next(rows)}).raise_for_status())
            yield compare("page", page, words(), turns=15)

        def vote(address: str) -> float:
            done = load(address, arena.key, path="/votes", connections=CONNECTIONS, seconds=LOAD_SECONDS)
            return 1.0 / done.rate

        vote(ours)  # reads names
        yield compare("vote", partial(vote, ours), partial(vote, bare), turns=3)


HALVES: dict[str, Callable[[], Iterator[Row]]] = {"engine": engine, "service": service}


def describe(row: Row, recorded: Recorded | None) -> str:
    """Return the row's line of the table."""
    shown = f"{row.seconds:9.3f} s " if row.seconds >= 0.1 else f"{1000 * row.seconds:9.3f} ms"
    line = f"{ROWS[row.name][0]:28}{shown}{row.ratio:10.4g} ×"
    if recorded is None:
        return f"{line}{'none':>13}"
    line += f"{recorded.ratio:11.4g} ×{recorded.noise:8.1%}"
    excess, change = recorded.excess(row.ratio), row.ratio / recorded.ratio - 1.0
    if abs(excess) > 1.0:
        line += f"  {'WORSE' if excess > 0.0 else 'better'} by {abs(change):.0%}"
    return f"{line}, beyond twice the noise" if excess > MOST_NOISES else line


def show(rows: Iterable[Row], figures: Mapping[str, Recorded], machine: str) -> int:
    """Print the table of rows as they are measured, beside figures of a machine.

    Returns 1 if a row of this machine is worse by more than twice its noise, else 0.
    """
    failed, names = False, list[str]()
    print(f"{'':28}{'least time':>11}{'ratio':>12}{'on record':>13}{'noise':>8}")
    for row in rows:
        recorded = figures.get(row.name)
        print(describe(row, recorded), flush=True)
        failed |= recorded is not None and recorded.excess(row.ratio) > MOST_NOISES
        names.append(row.name)
    for yardstick in dict.fromkeys(ROWS[name][1] for name in names):
        print(f"  {', '.join(name for name in names if ROWS[name][1] == yardstick)}: × {yardstick}")
    if failed and machine != this_machine():
        print(f"no failure: the figures on record are of another machine ({machine}; this is {this_machine()})")
        return 0
    return int(failed)


def summarise(runs: Sequence[Mapping[str, float]], before: Mapping[str, Recorded]) -> dict[str, Recorded]:
    """Return what is put on record of whole runs, beside those on record before against the same yardstick."""
    figures = dict[str, Recorded]()
    for name in runs[0]:
        yardstick, old = ROWS[name][1], before.get(name)
        kept = old.runs if old and old.yardstick == yardstick else ()
        figures[name] = Recorded((*kept, *(run[name] for run in runs)), yardstick)
    return figures


def write(*half: str, add: bool) -> None:
    """Make whole runs, each in a process of its own, and write the file; the rows of the other half stay."""
    runs = list[dict[str, float]]()
    for _ in range(WHOLE_RUNS):
        runs.append(in_fresh_process("benchmarks.quick", "--json", *half))
        print(", ".join(f"{name} {ratio:.4g}" for name, ratio in runs[-1].items()), flush=True)
    before = FIGURES if this_machine() == MACHINE else {}
    write_figures(this_machine(), {**before, **summarise(runs, before if add else {})})


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the rows that users feel.")
    parser.add_argument("half", nargs="?", choices=[*HALVES], help="measure it alone")
    parser.add_argument("--write", action="store_true", help="make several whole runs and write the file")
    parser.add_argument("--add", action="store_true", help="make several whole runs and add them to the file")
    parser.add_argument("--json", action="store_true", help="print the ratios alone")
    given = parser.parse_args()
    log_to_stderr(logging.ERROR)
    halves = [given.half] if given.half else [*HALVES]
    rows = (row for half in halves for row in HALVES[half]())
    if given.write or given.add:
        write(*([given.half] if given.half else []), add=given.add)
    elif given.json:
        print(json.dumps({row.name: row.ratio for row in rows}))
    else:
        return show(rows, FIGURES, MACHINE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
