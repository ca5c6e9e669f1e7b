"""One am-ELO fit on threads, on processes and on a Dask cluster of this machine.

`python -m benchmarks.scheduler [millions [way …]]`; ways: threads, one, two, dask. Prints for each way the seconds of
the fit, the processor's seconds of the busiest process that holds votes, the bytes that an iteration moves once the
votes are where they stay, and the memory of a vote there.
"""

import gc
import logging
import os
import pickle
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from app.rating.arrays import Floats
from app.rating.cluster import fitting_on_cluster
from app.rating.executors import Executors, Message, Parts, fitting_on
from app.rating.model.crowds import Crowds
from app.rating.model.law import ASSUMED_SPREAD, Law
from app.rating.model.scores import Search
from app.rating.model.start import balance, disperse, fit_bradley_terry
from app.rating.threads import one_blas_thread
from app.rating.votes.cells import Cells, aggregate, pool_annotators
from app.rating.votes.graph import find_components
from benchmarks.size import sized

MODELS, VOTES_EACH, LIMIT = 200, 50, 1.25
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
        with WAYS[way]():
            print(f"{millions:g}M votes, {way:<8}{describe(millions)}", flush=True)
