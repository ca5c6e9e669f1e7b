"""The same fit, to the last bit, wherever its parts are."""

import os
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import fields, is_dataclass, replace
from multiprocessing import get_context

import numpy as np
import pytest
from distributed import LocalCluster

from app.rating.cluster import fitting_on_cluster
from app.rating.executors import Executors, RemoteParts, _held, fitting_on
from app.rating.model.scores import MarginalFit, fit_scores
from app.rating.threads import one_blas_thread
from app.rating.votes import cells as votes
from app.rating.votes.cells import Cells
from tests.rating.model.crowds import draw


@pytest.fixture(autouse=True)
def small_units(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few hundred cells are worth a unit."""
    monkeypatch.setattr(votes, "CELLS_WORTH_A_THREAD", 300)


@pytest.fixture(scope="module")
def cells() -> Cells:
    return draw(90, 30, coins=6, contrary=3, seed=4).cells


@pytest.fixture
def here(cells: Cells) -> MarginalFit:
    return fit_scores(cells)


@pytest.fixture(scope="module")
def process() -> Iterator[Executor]:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        yield pool


def assert_same_bits(there: object, here: object) -> None:
    for field in fields(here):  # type: ignore[arg-type]
        one, other = getattr(there, field.name), getattr(here, field.name)
        if is_dataclass(other):
            assert_same_bits(one, other)
        else:
            np.testing.assert_array_equal(one, other, err_msg=field.name)


def test_one_processor_finds_what_all_of_them_find(cells: Cells, here: MarginalFit) -> None:
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        assert_same_bits(fit_scores(cells), here)
    finally:
        os.sched_setaffinity(0, allowed)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_threads_of_executors_find_what_this_process_finds(cells: Cells, here: MarginalFit, number: int) -> None:
    with ThreadPoolExecutor(number) as pool, fitting_on(Executors([pool] * number, worth=1)):
        assert_same_bits(fit_scores(cells), here)
    assert _held == {}  # the fit has given its parts back


def test_another_process_finds_what_this_one_finds(
    cells: Cells, here: MarginalFit, process: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Votes are sent once; then only sums of the size of the models travel, and abilities at the end."""
    sent, send = list[object](), Executors.send

    def note(self: Executors, executor: Executor, build: object) -> object:
        sent.append(executor)
        return send(self, executor, build)  # type: ignore[arg-type]

    monkeypatch.setattr(Executors, "send", note)
    with fitting_on(Executors([process, process], worth=1)):
        assert_same_bits(fit_scores(cells), here)
        assert_same_bits(fit_scores(replace(cells), start=here.start), fit_scores(cells, start=here.start))
    assert len(sent) == 6


def test_more_executors_than_units_find_the_same_but_for_rounding(cells: Cells, here: MarginalFit) -> None:
    with ThreadPoolExecutor(1) as pool, one_blas_thread(), fitting_on(Executors([pool] * 12, worth=1)):
        there = fit_scores(cells)
    np.testing.assert_allclose(there.R, here.R, atol=1e-9)


def test_a_part_that_is_lost_is_built_again(cells: Cells, here: MarginalFit, monkeypatch: pytest.MonkeyPatch) -> None:
    run, seen = RemoteParts.run, list[int]()

    def forgetting(self: RemoteParts, messages: object) -> list[object]:
        seen.append(1)
        if len(seen) in (3, 9):
            _held.clear()
        return run(self, messages)  # type: ignore[arg-type]

    monkeypatch.setattr(RemoteParts, "run", forgetting)
    with ThreadPoolExecutor(1) as pool, fitting_on(Executors([pool], worth=1)):
        assert_same_bits(fit_scores(cells), here)


@pytest.mark.campaign
def test_a_cluster_finds_what_this_process_finds(cluster: LocalCluster, cells: Cells, here: MarginalFit) -> None:
    with fitting_on_cluster(cluster.scheduler_address, worth=1):
        assert_same_bits(fit_scores(cells), here)
