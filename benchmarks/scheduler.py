"""One am-ELO fit on threads, on processes and on a Dask cluster of this machine.

`python -m benchmarks.scheduler [millions [way …]]`; ways: threads, one, two, dask. Prints for each way the seconds of
the fit, the processor's seconds of the busiest process that holds votes, the bytes that an iteration moves once the
votes are where they stay, and the memory of a vote there.

The ways folder-1 and folder-2 rate a folder of Parquet files, with types and tests, on so many workers of 4 GiB, which
read it themselves. They print the seconds of every stage, what the parts send and receive, and the most memory that a
worker and this process held. The folder is deleted afterwards.

On paper, of v votes, k annotators and n models on w workers, 8 bytes a number: a pass of the scores' search (about
10) sends 2 n² + O(n) numbers from each worker, and their sum back; a pass of the law's (about 30) sends 35. The pair
table, 2.3 n² numbers, goes both ways about ten times. An annotator costs one number for the unit, three for tastes,
24 for near-copies, and its row, to the process that asks, one way. A worker held 0.35 GB and 94 bytes a vote (28 of
them the votes), at 50 votes an annotator. A billion votes of 20 million annotators on 200 models and 64 workers: 1.8
GB a worker; 41 MB a pass up and as much down, so two seconds for all passes at 10 Gbit/s; 4.5 GB of annotators'
numbers, of which the asking process joins three an annotator at a time, 0.5 GB, and their rows if they are wanted,
2.7 GB. These are what limits it.
"""

import gc
import logging
import os
import pickle
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from scipy.special import expit

from app.rating.arrays import Floats
from app.rating.cluster import fitting_on_cluster
from app.rating.estimators.folder import rate_folder
from app.rating.executors import Executors, Message, Parts, RemoteParts, fitting_on
from app.rating.model.crowds import Crowds
from app.rating.model.law import ASSUMED_SPREAD, Law
from app.rating.model.scores import Search
from app.rating.model.start import balance, disperse, fit_bradley_terry
from app.rating.settings import LoopSettings
from app.rating.threads import one_blas_thread
from app.rating.votes.cells import Cells, aggregate, pool_annotators
from app.rating.votes.graph import find_components
from benchmarks.size import sized

MODELS, VOTES_EACH, LIMIT = 200, 50, 1.25
TIES, COINS = 0.1, 0.02
PAGE = os.sysconf("SC_PAGE_SIZE")


def draw(annotators: int) -> Cells:
    """Draw the votes of annotators with log-normal abilities (sd 0.3) on models of sd 100 Elo points."""
    generator, votes = np.random.default_rng(0), annotators * VOTES_EACH
    score = generator.normal(0.0, 0.58, MODELS)
    annotator = np.repeat(np.arange(annotators, dtype=np.int32), VOTES_EACH)
    a = generator.integers(0, MODELS, votes, dtype=np.int32)
    b = (a + generator.integers(1, MODELS, votes, dtype=np.int32)) % np.int32(MODELS)
    ability = np.exp(generator.normal(0.0, 0.3, annotators))[annotator]
    won = (generator.random(votes) < expit(ability * (score[a] - score[b]))).astype(float)
    return aggregate(annotator, a, b, won, n_annotators=annotators, n_models=MODELS)


class MeasuredParts:
    """Partitions, and how many bytes go to them and come back."""

    def __init__(self, parts: Parts) -> None:
        self._parts, self.number, self.moved = parts, parts.number, 0

    def run(self, messages: Sequence[Message]) -> list[Any]:
        """Send each partition its message; count message and answer."""
        answers = self._parts.run(messages)
        self.moved += sum(len(pickle.dumps(each)) for each in (*messages, *answers))
        return answers

    def close(self) -> None:
        """Forget the partitions."""
        self._parts.close()


class MeasuredCrowds(Crowds):
    """All annotators, in parts that are measured."""

    def __init__(self, cells: Cells, temper: float, ranking: Floats) -> None:
        super().__init__(cells, LIMIT, temper, ranking)
        self._parts = self.parts = MeasuredParts(self._parts)  # type: ignore[assignment]  # has the same methods

    def look_around(self) -> tuple[int, list[float]]:
        """Return the memory of all processes that hold partitions, and the processor's seconds of each."""
        message = Message(look, (), {})
        memory, used = zip(*dict(self.parts.run([message] * self.parts.number)).values(), strict=True)
        return sum(memory), list(used)


@contextmanager
def on_processes(number: int) -> Iterator[None]:
    with ExitStack() as stack:
        pools = [stack.enter_context(ProcessPoolExecutor(1, mp_context=get_context("spawn"))) for _ in range(number)]
        with fitting_on(Executors(pools, worth=1)):
            yield


@contextmanager
def on_dask() -> Iterator[None]:
    from distributed import LocalCluster  # noqa: PLC0415  only this way needs it

    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0", memory_limit=None,
            silence_logs=logging.CRITICAL,
        ) as cluster,
        fitting_on_cluster(cluster.scheduler_address, worth=1),
    ):  # fmt: skip
        yield


@contextmanager
def on_threads() -> Iterator[None]:
    yield


WAYS = {"threads": on_threads, "one": lambda: on_processes(1), "two": lambda: on_processes(2), "dask": on_dask}


WORDS = np.array(["model_a", "model_b", "tie"])
FILE_VOTES = 3_000_000


def write_folder(folder: Path, millions: float) -> None:
    """Write votes as `draw` draws them, of which a tenth are ties and a fiftieth of the annotators are coins."""
    import polars as pl  # noqa: PLC0415  only these ways need it

    annotators = int(millions * 1e6) // VOTES_EACH
    files = max(4, round(millions * 1e6 / FILE_VOTES))
    score = np.random.default_rng(0).normal(0.0, 0.58, MODELS)
    models = pl.Series([f"model-{model:03}" for model in range(MODELS)])
    for number in range(files):
        first, last = (annotators * place // files for place in (number, number + 1))
        generator, votes = np.random.default_rng([1, number]), (last - first) * VOTES_EACH
        a = generator.integers(0, MODELS, votes, dtype=np.int32)
        b = (a + generator.integers(1, MODELS, votes, dtype=np.int32)) % np.int32(MODELS)
        ability = np.exp(generator.normal(0.0, 0.3, last - first)) * (generator.random(last - first) > COINS)
        won = generator.random(votes) < expit(np.repeat(ability, VOTES_EACH) * (score[a] - score[b]))
        outcome = np.where(generator.random(votes) < TIES, 2, 1 - won)
        names = pl.int_range(first, last, eager=True).cast(pl.String).str.zfill(9)
        columns = {
            "annotator": names.gather(np.repeat(np.arange(last - first), VOTES_EACH)), "model_a": models.gather(a),
            "model_b": models.gather(b), "winner": pl.Series(WORDS).gather(outcome),
        }  # fmt: skip
        pl.DataFrame(columns).write_parquet(folder / f"{number:04}.parquet")


def peak() -> float:
    """Return the most memory that this process has held, GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def describe_folder(millions: float, workers: int) -> str:
    """Rate a folder, and say what it took."""
    from distributed import Client, LocalCluster  # noqa: PLC0415  only these ways need it

    moved: list[int] = []
    run = RemoteParts.run

    def counted(self: RemoteParts, messages: Sequence[Message]) -> list[Any]:
        answers = run(self, messages)
        moved.append(len(pickle.dumps(messages[0])) * len(messages) + sum(len(pickle.dumps(each)) for each in answers))
        return answers

    with TemporaryDirectory(prefix="stable-arena-", dir=os.environ.get("TMPDIR")) as name:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as other:  # its memory is not this process's
            other.submit(write_folder, Path(name), millions).result()
        before = peak()
        with (
            LocalCluster(
                n_workers=workers, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0",
                memory_limit="4GiB", silence_logs=logging.ERROR,
            ) as cluster,
            Client(cluster.scheduler_address, set_as_default=False) as client,
            fitting_on_cluster(cluster.scheduler_address, worth=1),
            patch.object(RemoteParts, "run", counted),
        ):  # fmt: skip
            started = time.perf_counter()
            found = rate_folder(Path(name), LoopSettings(min_votes=20), annotators=True)
            seconds = time.perf_counter() - started
            held = max(client.run(peak).values())
            used = " and ".join(f"{spent:.0f}" for spent in client.run(time.process_time).values())
    stages = ", ".join(f"{stage} {spent:.0f}" for stage, spent in found.diagnostics.seconds.items())
    return (
        f"{seconds:8.1f} s ({stages} s, the rest is reading); {len(moved)} exchanges, {sum(moved) / 1e6:.0f} MB, the "
        f"largest {max(moved) / 1e6:.1f} MB; processors worked {used} s; a worker held {held:.2f} GiB, this process "
        f"{peak():.2f} ({before:.2f} before); {found.standings}"
    )


def look(_: object) -> tuple[int, tuple[int, float]]:
    """Return this process, the memory it holds, and the seconds of a processor that it has used."""
    gc.collect()
    memory = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * PAGE
    return os.getpid(), (memory, time.process_time())


class Taken(NamedTuple):
    """What a fit took: seconds in all and of its iterations, processor's seconds, bytes moved and held."""

    seconds: float
    iterating: float
    iterations: int
    busiest: float
    moved: int
    memory: int


@one_blas_thread()
def fit(cells: Cells) -> Taken:
    """Fit as `fit_scores` does, and measure."""
    began = time.perf_counter()
    pairs = pool_annotators(cells)
    dispersion, ranking = disperse(pairs, fit_bradley_terry(pairs)), fit_bradley_terry(balance(cells))
    with MeasuredCrowds(cells, 1.0 / dispersion, ranking) as crowds:
        _, used_before = crowds.look_around()
        crowds.parts.moved = 0
        started = time.perf_counter()
        found = Search(crowds, find_components(pairs).label, dispersion).find(ranking, Law.assumed(ASSUMED_SPREAD))
        ended, moved = time.perf_counter(), crowds.parts.moved
        memory, used = crowds.look_around()
    busiest = max(late - early for early, late in zip(used_before, used, strict=True))
    return Taken(ended - began, ended - started, found.iterations, busiest, moved, memory)


def describe(millions: float) -> str:
    """Fit once, and say what it took."""
    before = fit(draw(2_000)).memory  # compiles, and shows what a process takes by itself
    annotators = int(millions * 1e6) // VOTES_EACH
    taken = fit(draw(annotators))
    return (
        f"{taken.seconds:8.2f} s, of which {taken.iterating:.2f} s are {taken.iterations} iterations; the busiest "
        f"process worked {taken.busiest:.2f} s; {taken.moved / taken.iterations / 1e6:.2f} MB an iteration; "
        f"{(taken.memory - before) / (annotators * VOTES_EACH):.0f} bytes a vote"
    )


if __name__ == "__main__":
    millions, ways = (
        float((sys.argv[1:] or [sized("10", "0.02")])[0]),
        sys.argv[2:] or sized(list(WAYS), ["threads", "dask"]),
    )
    for way in ways:
        if way.startswith("folder-"):
            print(f"{millions:g}M votes, {way:<8}{describe_folder(millions, int(way[7:]))}", flush=True)
            continue
        with WAYS[way]():
            print(f"{millions:g}M votes, {way:<8}{describe(millions)}", flush=True)
