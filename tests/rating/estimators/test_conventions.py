"""scikit-learn's conventions: parameters, fitted attributes, errors; and what a fitted estimator shows."""

import copy
import pickle
import re
import subprocess
import sys
import warnings
from dataclasses import asdict, fields
from typing import Any

import polars as pl
import pytest

from app.rating.errors import NoFiniteMaximumError, RatingError, VotesError
from app.rating.settings import LoopSettings
from stable_arena import AmElo, BradleyTerry, Elo, NotFittedError, RatingWarning
from tests.fixtures.errors import having, naming

ESTIMATORS = [AmElo, BradleyTerry, Elo]


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_parameters_are_echoed_and_a_clone_has_the_same(kind: type[Any]) -> None:
    odd = {name: object() for name in kind().get_params()}
    estimator = kind(**odd)
    assert all(getattr(estimator, name) is value for name, value in odd.items())
    assert estimator.get_params(deep=False) == odd
    assert kind(**estimator.get_params()).get_params() == odd  # how scikit-learn clones
    assert vars(estimator).keys() == odd.keys()


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_parameters_are_set_by_name(kind: type[Any]) -> None:
    estimator = kind()
    assert estimator.set_params(min_votes=7, base=1500.0) is estimator
    assert (
        repr(estimator)
        == f"{kind.__name__}({'base=1500.0, min_votes=7' if kind is Elo else 'min_votes=7, base=1500.0'})"
    )
    with pytest.raises(ValueError, match=f"{kind.__name__} has no parameter delta; it has .*min_votes"):
        estimator.set_params(min_votes=8, delta=50)
    assert estimator.min_votes == 7


def test_defaults_are_those_of_the_service() -> None:
    defaults = asdict(LoopSettings())
    parameters = AmElo().get_params()
    assert parameters.pop("inverse_propensity") is False  # of the votes, not of the fit
    assert parameters.pop("features") == ()  # as well
    assert parameters == {name: defaults[name] for name in parameters}
    assert {field.name for field in fields(LoopSettings)} - parameters.keys() == {
        "method",
        "evidence_tests",
        "release_margin",
        "min_model_votes",  # which models are ranked is the policy's: in a notebook all are
        "min_model_annotators",
        "max_interval_width",
        "unranked",
    }


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_a_result_before_fit_is_an_error(kind: type[Any]) -> None:
    estimator = kind()
    asked = [lambda: estimator.leaderboard, lambda: estimator.win_probability("x", "y"), estimator.plot]
    if kind is not Elo:
        asked.append(estimator.rank_sets)
    if kind is AmElo:
        asked += [lambda: estimator.annotators, estimator.flags]
    for ask in asked:
        with pytest.raises(NotFittedError, check=naming(kind.__name__)) as error:
            ask()
        assert isinstance(error.value, RatingError | ValueError | AttributeError)
    assert not hasattr(estimator, "leaderboard")


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (AmElo(min_votes=-1), "min_votes must be at least 0"),
        (AmElo(min_votes="50"), "min_votes must be a number"),
        (AmElo(confidence=None), "confidence must be a finite number"),
        (AmElo(influence_limit="1.25"), "influence_limit must be a finite number"),
        (AmElo(prior_sd=-1), "prior_sd must be at least 0.05"),
        (AmElo(prior_sd=1), "prior_sd must be at most 0.6"),
        (AmElo(min_probability=95), "min_probability must be at most 0.999"),
        (AmElo(flag_rule="vibes"), "flag_rule 'vibes' is unknown; known are"),
        (BradleyTerry(confidence=95), "confidence must be less than 1"),
        (BradleyTerry(anchor=("Model 0", 1000)), "there is no model 'Model 0' in the votes; is it 'model 0'?"),
        (BradleyTerry(anchor=(17, 1000)), "there is no model 17 in the votes"),
        (BradleyTerry(anchor="model 1"), "anchor must be (model, Elo points), is 'model 1'"),
        (Elo(anchor=("model 1", "1000")), "anchor must be (model, Elo points), is ('model 1', '1000')"),
        (Elo(k="4"), "k must be a number, is '4'"),
        (Elo(min_votes=None), "min_votes must be a number, is None"),
        (Elo(shuffles=2.5), "shuffles must be a whole number, is 2.5"),
        (Elo(shuffles=1), "at least 2 shuffles"),
        (Elo(k=float("nan")), "k and initial must be finite"),
        (Elo(anchor=("GPT", 1000)), "there is no model 'GPT' in the votes"),
        (Elo(min_votes=1000), "no vote is left: no annotator has more than 1000 votes"),
    ],
)
def test_parameters_are_checked_by_fit(votes: pl.DataFrame, estimator: Any, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        estimator.fit(votes)


@pytest.mark.parametrize("kind", [BradleyTerry, Elo])
def test_min_votes_needs_annotators(votes: pl.DataFrame, kind: type[Any]) -> None:
    with pytest.raises(VotesError, check=having(code="column")):
        kind(min_votes=1).fit(votes.drop("annotator"))


def test_notices_warn_at_the_line_that_fits(votes: pl.DataFrame) -> None:
    alone = votes.filter(pl.col("annotator") == "honest 0")
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        AmElo().fit(alone)
    assert {(warning.category, warning.filename) for warning in warned} == {(RatingWarning, __file__)}
    assert any(re.fullmatch(r"one annotator .* \(one-annotator\)", str(warning.message)) for warning in warned)
    apart = pl.concat([alone, alone.with_columns(pl.col("model_a", "model_b") + "'")])
    with pytest.warns(RatingWarning, match=r"\(disconnected-graph\)$") as warned:
        Elo(shuffles=2).fit(apart)
    assert {warning.filename for warning in warned} == {__file__}


def test_without_annotators_none_is_blamed(votes: pl.DataFrame, recwarn: pytest.WarningsRecorder) -> None:
    BradleyTerry().fit(votes.drop("annotator"))
    assert not list(recwarn)


@pytest.mark.filterwarnings("ignore::app.rating.errors.RatingWarning")
def test_annotators_without_a_finite_ability_are_named(votes: pl.DataFrame) -> None:
    sure = pl.DataFrame({"annotator": "sure", "model_a": "model 0", "model_b": "model 5", "winner": ["model_a"] * 60})
    with pytest.raises(NoFiniteMaximumError) as error:
        AmElo(prior_sd=None).fit(pl.concat([votes, sure.select(votes.columns)]))
    assert str(error.value).endswith(": sure")


@pytest.mark.filterwarnings("ignore::app.rating.errors.RatingWarning")
def test_a_fitted_estimator_shows_its_leaderboard(votes: pl.DataFrame) -> None:
    text = repr(AmElo(prior_sd=0.5).fit(votes))
    assert text.startswith("AmElo(prior_sd=0.5)\n3,240 of 3,240 votes count, 6 models, 3 annotators flagged\n")
    assert text.count("┆ model ") == 7  # the heading and 6 models
    score = AmElo(prior_sd=0.5).fit(votes).leaderboard["score"][0]
    assert f" {score:.1f} " in text
    assert f" {score} " not in text
    assert "\n3,240 of 3,240 votes count, 6 models\n" in repr(Elo(shuffles=2).fit(votes))
    assert "\n3,240 of 3,240 votes count, 6 models\n" in repr(BradleyTerry().fit(votes))


@pytest.mark.filterwarnings("ignore::app.rating.errors.RatingWarning")
def test_a_fitted_estimator_can_be_stored_and_fitted_again(votes: pl.DataFrame) -> None:
    fitted = AmElo().fit(votes)
    board = fitted.leaderboard
    for other in (pickle.loads(pickle.dumps(fitted)), copy.deepcopy(fitted)):  # noqa: S301  our own bytes
        assert other.leaderboard.equals(board)
    fitted.set_params(base=0.0)
    assert fitted.leaderboard.equals(board)
    assert fitted.fit(votes).leaderboard["score"].mean() == pytest.approx(0.0, abs=1e-9)


def test_the_service_reads_settings_without_the_estimators() -> None:
    code = "import sys, app.rating, app.rating.settings; print({'numpy', 'narwhals', 'polars'} & sys.modules.keys())"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "set()\n"


def test_the_face_has_what_its_list_names() -> None:
    found: dict[str, object] = {}
    exec("from stable_arena import *", found)  # noqa: S102  as a notebook does
    names = sorted(name for name in found if name[0] != "_")
    assert names == ["AmElo", "BradleyTerry", "Elo", "NotFittedError", "RatingWarning", "read_votes"]
