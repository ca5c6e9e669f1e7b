"""Whatever fails beside the main leaderboard, the leaderboard comes: without that part, with a notice."""

from typing import Any

import numpy as np
import pytest

from app.errors import UnavailableError
from app.rating.errors import NotConvergedError, VotesError
from app.rating.verdict import confidence
from app.refits.fit import comparisons, dimensions, fit, interface
from app.refits.fit.fit import fit_snapshot
from app.refits.fit.interface import FitInput, FitOutput
from app.refits.fit.parts import LEFT_OUT, PartNotice, Parts
from app.refits.fit.process import FitCancelledError
from tests.fixtures.fit_inputs import make_input_with_everything

IN_TURN = [
    (fit, "fit_categories", ["leaderboards of categories"]),
    (dimensions, "pool_categories", ["leaderboard of code, text"]),
    (fit, "fit_criteria", ["leaderboards of criteria"]),
    (
        comparisons, "run_round",
        ["leaderboard of the criterion 'clear'", "leaderboard m-elo", "leaderboard m-elo-all", "leaderboard all"],
    ),
    (comparisons, "rate_judges", ["leaderboard judges"]),
    (fit, "fit_kinds", ["leaderboards of kinds"]),
    (comparisons, "fit_elo", ["leaderboard elo"]),
    (fit, "fit_other_methods", ["leaderboards by other methods"]),
    (comparisons, "control_style", ["leaderboard with style control"]),
    (fit, "fit_style_board", ["style control"]),
    (fit, "predict_matchups", ["matchups"]),
    (fit, "tabulate_pairs", ["pair weights"]),
    (fit, "weigh_pairs", ["pair weights of the main leaderboard"]),
    (fit, "measure_leaderboards", ["forecasts"]),
    (confidence, "find_growth", ["forecast of the main leaderboard", "forecast of the leaderboard of code",
     "forecast of the leaderboard of text", "forecast of the leaderboard of criterion=clear"]),
    (fit, "list_verdicts", ["verdicts on the best models"]),
]  # fmt: skip


def fail(*_: Any, **__: Any) -> Any:
    raise np.linalg.LinAlgError("the matrix is singular")


@pytest.fixture(scope="module")
def task() -> FitInput:
    return make_input_with_everything()


@pytest.fixture(scope="module")
def whole(task: FitInput) -> FitOutput:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comparisons, "MOST_SHUFFLES", comparisons.FEWEST_SHUFFLES)
        return fit_snapshot(task)


def test_an_arena_with_everything_has_every_part(whole: FitOutput) -> None:
    assert whole.notices == ()
    assert {name.tag or name.method for name in whole.leaderboards} == {
        "am-elo", "m-elo", "m-elo-all", "elo", "people", "judges", "all", "style", "weighted", "code", "text",
        "criterion=clear",
    }  # fmt: skip
    assert whole.matchups is not None
    assert {tag for tag, _ in whole.confidence} == whole.pair_weights.keys() == {"", "code", "text", "criterion=clear"}


@pytest.mark.parametrize(("room", "name", "parts"), IN_TURN, ids=[name for _, name, _ in IN_TURN])
def test_a_part_that_fails_is_left_out(
    task: FitInput, whole: FitOutput, monkeypatch: pytest.MonkeyPatch, room: Any, name: str, parts: list[str]
) -> None:
    monkeypatch.setattr(comparisons, "MOST_SHUFFLES", comparisons.FEWEST_SHUFFLES)
    monkeypatch.setattr(room, name, fail)
    made = fit_snapshot(task)
    np.testing.assert_array_equal(made.models.score, whole.models.score)
    assert {one.code for one in made.notices} == {LEFT_OUT}
    left_out = [one for one in made.notices if isinstance(one, PartNotice)]
    assert [one.part for one in left_out] == parts
    assert all("in fail" in one.trace for one in left_out)


def test_what_the_votes_explain_has_a_notice_of_its_own() -> None:
    parts = Parts()

    def refuse() -> None:
        raise VotesError("too few votes")

    assert parts.compute("leaderboard of code", refuse, omitted="tag-board-omitted") is None
    assert parts.compute("leaderboard of text", refuse) is None
    assert [(one.code, one.detail) for one in parts.notices] == [
        ("tag-board-omitted", "there is no leaderboard of code: too few votes"),
        (LEFT_OUT, "leaderboard of text: too few votes"),
    ]


def test_a_part_for_which_memory_is_missing_is_left_out() -> None:
    parts = Parts()

    def fill() -> None:
        raise MemoryError

    assert parts.compute("leaderboards of categories", fill) is None
    assert [one.code for one in parts.notices] == [LEFT_OUT]


@pytest.mark.parametrize("error", [FitCancelledError("stopped"), UnavailableError("the database is away")])
def test_what_says_nothing_of_the_part_ends_the_whole(error: Exception) -> None:
    def end() -> None:
        raise error

    with pytest.raises(type(error)):
        Parts().compute("matchups", end)


def test_the_main_fit_still_fails_the_refit(task: FitInput, monkeypatch: pytest.MonkeyPatch) -> None:
    def diverge(*_: Any, **__: Any) -> Any:
        raise NotConvergedError("not converged", np.zeros(1), np.zeros(1))

    monkeypatch.setattr(interface, "run_round", diverge)
    with pytest.raises(NotConvergedError):
        fit_snapshot(task)
