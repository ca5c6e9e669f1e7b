import numpy as np
import pytest

from app.rating.settings import LoopSettings
from app.rating.verdict.round import run_round
from app.rating.votes.cells import Cells
from stable_arena_lab.attacks.arena import Setup, draw_arena
from stable_arena_lab.attacks.joining import Attack
from stable_arena_lab.budget import _Search, find_budget

SETTINGS = LoopSettings(min_votes=0, interval="none")
ATTACK = Attack(votes_each=60)


@pytest.fixture(scope="module")
def cells() -> Cells:
    return draw_arena(7, "none", Setup(n_annotators=40, votes_each=80)).votes.cells()


def at_rank(cells: Cells, rank: int, settings: LoopSettings = SETTINGS) -> int:
    return int(np.argmax(run_round(cells, settings).models.rank == rank))


def test_too_few_attackers_are_an_answer(cells: Cells) -> None:
    found = max((find_budget(cells, SETTINGS, at_rank(cells, rank), ATTACK, "none", most=64) for rank in (2, 3, 4)),
                key=lambda budget: budget.median_votes or 0)  # fmt: skip
    assert found.median_attackers is not None
    assert found.median_attackers > 1
    assert found.at_least == found.median_attackers
    fewer = find_budget(cells, SETTINGS, found.model, ATTACK, "none", most=found.median_attackers - 1)
    assert (fewer.median_attackers, fewer.at_least) == (None, found.median_attackers)


def test_new_draws_say_how_often_the_numbers_lift(cells: Cells) -> None:
    settings = LoopSettings(min_votes=0, interval="none", flag_rule="threshold")
    found = find_budget(cells, settings, at_rank(cells, 18, settings), ATTACK, "none", most=16, draws=4)
    assert found.median_attackers is not None
    assert found.nearly_sure_attackers == -(-3 * found.median_attackers // 2)
    assert found.nearly_sure_votes == 60 * found.nearly_sure_attackers
    half, median, nearly_sure = found.lifted
    assert half <= nearly_sure
    assert median <= nearly_sure
    assert nearly_sure > 0
    none = find_budget(cells, settings, found.model, Attack(votes_each=1), "none", most=1, draws=4)
    assert (none.nearly_sure_attackers, none.nearly_sure_votes, none.lifted) in ((None, None, ()), (2, 2, none.lifted))


def test_excluded_attackers_lift_no_model(cells: Cells) -> None:
    """Mimics are excluded by evidence in the trials too."""
    model = at_rank(cells, 2, LoopSettings(min_votes=0, flag_rule="evidence", exclude=True))
    assert find_budget(cells, SETTINGS, model, Attack("mimic", 100), "evidence", most=6).median_attackers is None


@pytest.mark.parametrize("most", [1, 2, 7, 64])
@pytest.mark.parametrize("guess", [0, 1, 5, 40, 64])
def test_the_search_finds_any_number_from_any_guess(guess: int, most: int) -> None:
    for smallest in range(1, most + 3):
        tried = []

        def enough(number: int, smallest: int = smallest, tried: list[int] = tried) -> bool:
            tried.append(number)
            return number >= smallest

        search = _Search(enough, guess, most)
        while not search.finished:
            search.step()
        assert search.found == (smallest if smallest <= most else None)
        assert len(tried) == len(set(tried))
        assert all(1 <= number <= most for number in tried)
