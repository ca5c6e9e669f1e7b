"""Sums over parts add up to the same result, however many threads share the work."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from app.lab.simulate import SimulatedVotes, simulate_votes
from app.rating import compact, graph, partition, threads, votes
from app.rating.results import LoopSettings, Rating
from app.rating.stable_arena import run_stable_arena
from app.rating.threads import map_parts, split
from app.rating.votes import Cells, count_pairs

MakeCells = Callable[[SimulatedVotes], Cells]
CROWD: Any = {"honest": 40, "random": 3, "flip": 2}


@pytest.fixture
def rate_on(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, Callable[[], Rating]], Rating]:
    """Rate with that many threads, however few the votes."""

    def rate(number: int, work: Callable[[], Rating]) -> Rating:
        for module in (threads, partition):
            monkeypatch.setattr(module, "available_threads", lambda: number)
        for module in (compact, graph, partition, votes):
            monkeypatch.setattr(module, "WORTH_A_THREAD", 1)
        return work()

    return rate


@pytest.mark.parametrize("method", ["am-elo", "m-elo"])
@pytest.mark.parametrize("number", [2, 3, 7])
def test_the_number_of_threads_changes_nothing(
    rate_on: Callable[..., Rating], cells_of: MakeCells, method: Any, number: int
) -> None:
    simulated = simulate_votes(2, n_models=12, roles=CROWD, votes_each=60)

    def work() -> Rating:
        return run_stable_arena(cells_of(simulated), LoopSettings(method=method))

    one, several = rate_on(1, work), rate_on(number, work)
    for name in ("score", "se", "lower", "upper"):
        left, right = getattr(one.board, name), getattr(several.board, name)
        np.testing.assert_allclose(right, left, rtol=1e-10, atol=1e-8, err_msg=name)
    for name in ("ability", "se"):
        left, right = getattr(one.crowd, name), getattr(several.crowd, name)
        np.testing.assert_allclose(right, left, rtol=1e-10, atol=1e-10, err_msg=name)


def test_m_elo_on_the_pair_table_is_m_elo_on_the_annotators_cells(cells_of: MakeCells) -> None:
    simulated = simulate_votes(2, n_models=12, roles=CROWD, votes_each=60)
    settings = LoopSettings(method="m-elo", min_votes=0, interval="sandwich")
    cells = run_stable_arena(cells_of(simulated), settings).board
    columns = (simulated.model_a, simulated.model_b, simulated.outcome)
    pairs = run_stable_arena(count_pairs(*columns, n_models=12), settings).board
    for name in ("score", "se", "lower", "upper", "votes", "wins", "ties", "losses", "rank", "worst_rank"):
        np.testing.assert_allclose(getattr(pairs, name), getattr(cells, name), rtol=1e-10, err_msg=name)


def test_parts_cover_everything_once() -> None:
    for length, worth, number in ((0, 10, None), (7, 1, 3), (100, 10, None), (2, 1, 5)):
        parts = split(length, worth, number)
        assert [i for first, last in parts for i in range(first, last)] == list(range(length))


def test_results_keep_the_order_of_the_parts_and_errors_come_through() -> None:
    assert map_parts(lambda part: part * 2, [1, 2, 3, 4]) == [2, 4, 6, 8]
    with pytest.raises(ZeroDivisionError):
        map_parts(lambda part: 1 // part, [0, 1])
