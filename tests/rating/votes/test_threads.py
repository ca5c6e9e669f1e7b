"""Sums over parts add up to the same result, to the last bit however many threads share the work."""

import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from app.rating import threads
from app.rating.settings import LoopSettings
from app.rating.simulation.worlds import SimulatedVotes, simulate_votes
from app.rating.threads import MOST_PARTS, map_parts, split
from app.rating.uncertainty.influence import find_influence, leave_annotators_out
from app.rating.verdict.rating import Rating
from app.rating.verdict.round import run_round
from app.rating.votes import cells as votes
from app.rating.votes.cells import Cells, pool_annotators

MakeCells = Callable[[SimulatedVotes], Cells]
CROWD: Any = {"honest": 40, "random": 3, "flip": 2}


@pytest.fixture
def many_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut the work into as many parts as there may be, however few the votes."""
    monkeypatch.setattr(votes, "CELLS_WORTH_A_THREAD", 1)


@pytest.fixture
def have_threads(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Set how many processors there seem to be, whatever the machine has."""
    return lambda number: monkeypatch.setattr(threads, "available_threads", lambda: number)


def rate(cells_of: MakeCells, method: Any) -> Rating:
    simulated = simulate_votes(2, n_models=12, roles=CROWD, votes_each=60)
    return run_round(cells_of(simulated), LoopSettings(method=method, flag_rule="evidence"))


def figures(rating: Rating) -> dict[str, Any]:
    board = {name: getattr(rating.models, name) for name in ("score", "se", "lower", "upper")}
    return board | {f"annotator's {name}": getattr(rating.annotators, name) for name in ("ability", "se")}


@pytest.mark.parametrize("method", ["am-elo", "m-elo"])
def test_the_number_of_threads_changes_nothing(
    cells_of: MakeCells, method: Any, many_parts: None, have_threads: Callable[[int], None]
) -> None:
    found = []
    for number in (1, 2, 3, 7):
        have_threads(number)
        found.append(figures(rate(cells_of, method)))
    for other in found[1:]:
        for name, values in other.items():
            np.testing.assert_array_equal(values, found[0][name], err_msg=name)


@pytest.mark.parametrize("method", ["am-elo", "m-elo"])
def test_nor_does_the_number_of_parts_but_for_rounding(
    cells_of: MakeCells, method: Any, request: pytest.FixtureRequest
) -> None:
    whole = figures(rate(cells_of, method))
    request.getfixturevalue("many_parts")
    for name, values in figures(rate(cells_of, method)).items():
        np.testing.assert_allclose(values, whole[name], rtol=1e-6, atol=1e-8, err_msg=name)


def test_m_elo_on_the_pair_table_is_m_elo_on_the_annotators_cells(cells_of: MakeCells) -> None:
    simulated = simulate_votes(2, n_models=12, roles=CROWD, votes_each=60)
    settings = LoopSettings(method="m-elo", min_votes=0, interval="sandwich")
    cells = run_round(cells_of(simulated), settings).models
    pairs = run_round(pool_annotators(cells_of(simulated)), settings).models
    for name in ("score", "se", "lower", "upper", "votes", "wins", "ties", "losses", "rank", "worst_rank"):
        np.testing.assert_allclose(getattr(pairs, name), getattr(cells, name), rtol=1e-10, err_msg=name)


def test_parts_cover_everything_once() -> None:
    for length, worth, number in ((0, 10, 1), (7, 1, MOST_PARTS), (100, 30, 4), (2, 1, 3)):
        parts = split(length, worth)
        assert len(parts) == number
        assert [i for first, last in parts for i in range(first, last)] == list(range(length))


def test_results_keep_the_order_of_the_parts_and_errors_come_through() -> None:
    assert map_parts(lambda part: part * 2, [1, 2, 3, 4]) == [2, 4, 6, 8]
    with pytest.raises(ZeroDivisionError):
        map_parts(lambda part: 1 // part, [0, 1])


def in_time(work: Callable[[], Any]) -> Any:
    """The result of work that may wait for ever."""
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(work()), daemon=True)
    thread.start()
    thread.join(60)
    assert results, "its threads wait for each other"
    return results[0]


def test_work_that_itself_has_parts_ends(have_threads: Callable[[int], None]) -> None:
    have_threads(2)
    both = threading.Barrier(2)

    def work(part: int) -> int:
        both.wait(30)  # both threads have a part when they ask for more
        return sum(map_parts(lambda inner: part * inner, [1, 2, 3]))

    assert in_time(lambda: map_parts(work, [1, 10])) == [6, 60]


@pytest.mark.usefixtures("many_parts")
def test_the_effect_of_leaving_annotators_out_ends(cells_of: MakeCells, have_threads: Callable[[int], None]) -> None:
    rating = rate(cells_of, "am-elo")
    have_threads(1)
    alone = leave_annotators_out(find_influence(rating))
    have_threads(2)
    np.testing.assert_array_equal(in_time(lambda: leave_annotators_out(find_influence(rating))), alone)


def test_the_linear_algebra_has_one_thread_whatever_is_imported_first() -> None:
    code = (
        "from app.rating.threads import one_blas_thread; import numpy, scipy.linalg; from threadpoolctl import *\n"
        "with one_blas_thread(): print({x['num_threads'] for x in threadpool_info() if x['user_api'] == 'blas'})"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert ran.stdout.strip() == "{1}"
