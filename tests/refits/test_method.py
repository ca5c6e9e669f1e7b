"""A small arena's numbers on every leaderboard: a change that moves them raises `METHOD`, and pins them anew here."""

import pytest

from app.rating.method import METHOD
from app.refits.fit import comparisons
from app.refits.fit.fit import fit_snapshot
from tests.fixtures.fit_inputs import make_input_with_everything

PINNED_METHOD = 3
PINNED = {
    "am-elo": (1134.6245, 39.8851),
    "people": (1134.6245, 39.8851),
    "judges": (1110.6718, 39.4753),
    "all": (1129.2022, 26.5418),
    "m-elo": (1132.1031, 29.6620),
    "m-elo-all": (1128.4170, 21.7264),
    "elo": (1083.5738, 0.8380),
    "style": (1135.6143, 40.0694),
    "weighted": (1134.8373, 40.7291),
    "code": (1143.5751, 43.7652),
    "text": (1126.0994, 43.1705),
    "criterion=clear": (1134.6245, 39.8851),
}
"""Score and standard error of the first model."""
ABILITY = (1.56254, 0.38461)
"""Of the first annotator, with its error."""


def test_the_same_votes_give_other_numbers_only_by_another_method(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparisons, "MOST_SHUFFLES", comparisons.FEWEST_SHUFFLES)
    made = fit_snapshot(make_input_with_everything())
    found = {name.tag or name.method: (board.score[0], board.se[0]) for name, board in made.leaderboards.items()}
    moved = {name for name, figures in PINNED.items() if found[name] != pytest.approx(figures, abs=1e-3)}
    assert found.keys() == PINNED.keys()
    assert (moved, METHOD) == (set(), PINNED_METHOD)
    assert (made.annotators.ability[0], made.annotators.se[0]) == pytest.approx(ABILITY, abs=1e-4)
