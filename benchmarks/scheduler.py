"""One am-ELO fit on threads, on processes and on a Dask cluster of this machine, its votes drawn where they stay.

`python -m benchmarks.scheduler [millions [way …]]`; ways: threads, one, two, dask. Prints for each way the seconds of
the fit, the processor's seconds of the busiest process, the bytes that an iteration moves, and the memory of a vote.
"""

import gc
import logging
import os
import pickle
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from app.rating.fit.am_elo import FIRST_UPDATES, FURTHEST_START
from app.rating.fit.m_elo import fit_m_elo_unchecked
from app.rating.fit.partition import Partition
from app.rating.fit.partitions import LocalParts, Partitions, Parts
from app.rating.fit.scale import Scale
from app.rating.fit.sqp import minimise
from scipy.special import expit

from app.rating.cluster import fitting_on_cluster
from app.rating.executors import Build, Executors, Message, RemoteParts, current_executors, fitting_on
from app.rating.votes.cells import Cells, aggregate
from benchmarks.size import sized

MODELS, VOTES_EACH, CAP = 200, 50, 1.75
DRAWN_AT_ONCE = 20_000  # annotators
PAGE = os.sysconf("SC_PAGE_SIZE")


def draw_partition(seed: int, annotators: int) -> Partition:
    """Draw the votes of annotators with log-normal abilities (sd 0.3) on models of sd 100 Elo points."""
    edges = [*range(0, annotators, DRAWN_AT_ONCE), annotators]
    pieces = [_draw(np.random.default_rng((seed, first)), last - first) for first, last in pairwise(edges)]
    annotator = np.concatenate([piece.annotator + np.int32(first) for first, piece in zip(edges, pieces, strict=False)])
    model_a, model_b, n, s, ties = (
        np.concatenate([getattr(piece, name) for piece in pieces]) for name in ("model_a", "model_b", "n", "s", "ties")
    )
    cells = Cells(annotator, model_a, model_b, n, s, ties, annotators, MODELS)
    return Partition(cells, np.zeros(annotators, dtype=np.int64), 1, 1.0, CAP)


def _draw(generator: np.random.Generator, annotators: int) -> Cells:
    score, votes = np.random.default_rng(0).normal(0.0, 0.58, MODELS), annotators * VOTES_EACH
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


@contextmanager
def on_processes(number: int) -> Iterator[None]:
    with ExitStack() as stack:
        pools = [stack.enter_context(ProcessPoolExecutor(1, mp_context=get_context("spawn"))) for _ in range(number)]
        with fitting_on(Executors(pools)):
            yield


@contextmanager
def on_dask() -> Iterator[None]:
    from distributed import LocalCluster  # noqa: PLC0415  only this way needs it

    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0", memory_limit=None,
            silence_logs=logging.CRITICAL,
        ) as cluster,
        fitting_on_cluster(cluster.scheduler_address),
    ):  # fmt: skip
        yield


@contextmanager
def on_threads() -> Iterator[None]:
    yield


WAYS = {"threads": on_threads, "one": lambda: on_processes(1), "two": lambda: on_processes(2), "dask": on_dask}


def look(_: Partition) -> tuple[int, tuple[int, float]]:
    """Return this process, the memory it holds, and the seconds of a processor that it has used."""
    gc.collect()
    memory = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * PAGE
    return os.getpid(), (memory, time.process_time())


def look_around(parts: Parts) -> tuple[int, list[float]]:
    """Return the memory of all processes that hold partitions, and the processor's seconds of each."""
    memory, used = zip(*dict(parts.run([Message(look, (), {})] * parts.number)).values(), strict=True)
    return sum(memory), list(used)


def fit(millions: float) -> str:
    """Fit once, and say what it took."""
    executors = current_executors()
    number = 2 if executors is None else executors.count_partitions(10**9)
    annotators = int(millions * 1e6) // VOTES_EACH
    builds: list[Build] = [partial(draw_partition, part, annotators // number) for part in range(number)]
    place: Callable[[Sequence[Build]], Parts]
    place = LocalParts if executors is None else partial(RemoteParts, executors)
    tiny = place([partial(draw_partition, 0, 2_000)] * number)  # compiles, and shows what a process takes by itself
    before, _ = look_around(tiny)
    tiny.close()
    parts = MeasuredParts(place(builds))
    scale = Scale(np.zeros(MODELS, dtype=np.int64), np.zeros(annotators // number * number, dtype=np.int64), 1)
    label = np.zeros(MODELS, dtype=np.int64)
    with Partitions(parts, label, scale, terms=annotators * VOTES_EACH, free_sign=False) as partitions:
        _, used_before = look_around(parts)
        began = time.perf_counter()
        R = fit_m_elo_unchecked(partitions.balanced_pairs(), label).R
        partitions.each(Partition.update_abilities, R, steps=FIRST_UPDATES, furthest=FURTHEST_START)
        parts.moved = 0
        started = time.perf_counter()
        optimum = minimise(partitions, R)
        ended = time.perf_counter()
        moved = parts.moved / optimum.iterations
        after, used_after = look_around(parts)
    memory = (after - before) / (annotators * VOTES_EACH)
    busiest = max(late - early for early, late in zip(used_before, used_after, strict=True))
    return (
        f"{ended - began:8.2f} s, of which {ended - started:.2f} s are {optimum.iterations} iterations; "
        f"the busiest process worked {busiest:.2f} s; {moved / 1e6:.2f} MB an iteration; {memory:.0f} bytes a vote"
    )


if __name__ == "__main__":
    millions, ways = (
        float((sys.argv[1:] or [sized("10", "0.02")])[0]),
        sys.argv[2:] or sized(list(WAYS), ["threads", "dask"]),
    )
    for way in ways:
        with WAYS[way]():
            print(f"{millions:g}M votes, {way:<8}{fit(millions)}", flush=True)
