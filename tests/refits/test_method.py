"""A small arena's numbers on every leaderboard: a change that moves them raises `METHOD`, and pins them anew here."""

import pytest

from app.rating.method import METHOD
from app.refits.fit import comparisons
from app.refits.fit.fit import fit_snapshot
from tests.fixtures.fit_inputs import make_input_with_everything

PINNED_METHOD = 2
PINNED = {
    "am-elo": (1142.2501, 33.0862),
    "people": (1142.2501, 33.0862),
    "judges": (1110.6718, 39.4753),
    "all": (1134.1598, 23.0295),
    "m-elo": (1132.1031, 29.7549),
    "m-elo-all": (1128.4170, 21.7938),
    "elo": (1083.5738, 0.8380),
    "style": (1142.2024, 33.2577),
    "weighted": (1142.4338, 33.2801),
    "code": (1150.9093, 37.1936),
    "text": (1133.9583, 36.4663),
    "criterion=clear": (1142.2501, 33.0862),
}
"""Score and standard error of the first model."""
ABILITY = (1.01476, 0.06768)
"""Of the first annotator, with its error."""


def test_the_same_votes_give_other_numbers_only_by_another_method(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparisons, "MOST_SHUFFLES", comparisons.FEWEST_SHUFFLES)
    made = fit_snapshot(make_input_with_everything())
    found = {name.tag or name.method: (board.score[0], board.se[0]) for name, board in made.leaderboards.items()}
    moved = {name for name, figures in PINNED.items() if found[name] != pytest.approx(figures, abs=1e-3)}
    assert found.keys() == PINNED.keys()
    assert (moved, METHOD) == (set(), PINNED_METHOD)
    assert (made.annotators.ability[0], made.annotators.se[0]) == pytest.approx(ABILITY, abs=1e-4)
