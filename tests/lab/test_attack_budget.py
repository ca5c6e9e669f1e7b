"""The attack budget that is published: what it says is so, however little time it had."""

import numpy as np
import pytest

from app.lab.attacks.arena import Setup, draw_arena
from app.lab.attacks.joining import Attack
from app.lab.budget import _Search, attack_budget, find_budget
from app.rating.data.votes import Cells
from app.rating.loop.round import run_round
from app.rating.settings import LoopSettings

SETTINGS = LoopSettings(min_votes=0, interval="none")
ATTACK = Attack(votes_each=60)


@pytest.fixture(scope="module")
def cells() -> Cells:
    return draw_arena(7, "none", Setup(n_annotators=40, votes_each=80)).votes.cells()


def test_every_place_is_the_smallest_number_that_is_enough(cells: Cells) -> None:
    turn = run_round(cells, SETTINGS)
    budget = attack_budget(cells, SETTINGS, turn=turn, attack=ATTACK, places=3, seconds=600.0)
    assert budget.complete
    assert [place.rank for place in budget.places] == [2, 3, 4]
    for place in budget.places:
        alone = find_budget(cells, SETTINGS, place.model, ATTACK, "none", most=64)
        assert (place.annotators, place.votes, place.at_least) == (alone.annotators, alone.votes, alone.at_least)


def test_out_of_time_it_says_what_it_knows(cells: Cells) -> None:
    nothing = attack_budget(cells, SETTINGS, attack=ATTACK, places=3, seconds=-1.0)
    assert not nothing.complete
    assert {(place.annotators, place.at_least) for place in nothing.places} == {(None, 1)}
    assert attack_budget(cells, SETTINGS, attack=ATTACK, places=0).complete


def test_too_few_to_try_is_an_answer(cells: Cells) -> None:
    place = max(attack_budget(cells, SETTINGS, attack=ATTACK, seconds=600.0).places, key=lambda each: each.votes or 0)
    assert place.annotators is not None
    assert place.annotators > 1
    fewer = find_budget(cells, SETTINGS, place.model, ATTACK, "none", most=place.annotators - 1)
    assert fewer.annotators is None
    assert fewer.at_least == place.annotators
    assert fewer.complete


def test_who_is_excluded_lifts_nobody(cells: Cells) -> None:
    """Mimics are excluded by evidence in the trials too."""
    policy = LoopSettings(min_votes=0, flag_rule="evidence", exclude=True)
    mimics = Attack("mimic", 100)
    found = attack_budget(cells, policy, attack=mimics, places=1, most=6, seconds=600.0).places[0]
    assert found.annotators is None
    assert found.complete


def test_the_rule_probability_has_standard_errors_in_the_trials_too(cells: Cells) -> None:
    """Everybody is certain to be at or below so high an ε; those on record are kept, attackers are not."""
    policy = LoopSettings(min_votes=0, flag_rule="probability", min_ability=50.0, exclude=True)
    everybody = np.ones(cells.n_annotators, dtype=bool)
    budget = attack_budget(cells, policy, attack=ATTACK, places=1, most=8, seconds=600.0, keep_always=everybody)
    found = budget.places[0]
    assert found.annotators is None
    assert found.complete
    with pytest.raises(ValueError, match="needs an interval"):
        find_budget(cells, SETTINGS, found.model, ATTACK, "probability", most=8)


def test_who_votes_always_left_stays_out_of_trials_that_cannot_tell(cells: Cells) -> None:
    """The turn knew sides; cells do not. Without the first annotator, all else is the same."""
    policy = LoopSettings(min_votes=0, exclude=True)
    turn = run_round(cells, policy)
    turn.rating.annotators.standing[0], turn.rating.annotators.rule[0] = "excluded", "side"
    nobody = np.zeros(cells.n_annotators, dtype=bool)
    told = attack_budget(cells, policy, turn=turn, attack=ATTACK, places=2, seconds=600.0)
    nobody[0] = True
    same = attack_budget(cells, policy, turn=turn, attack=ATTACK, places=2, seconds=600.0, keep_never=nobody)
    assert told.places == same.places


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
