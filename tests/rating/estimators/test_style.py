"""The estimator with features: what it gives, and what it refuses."""

import numpy as np
import polars as pl
import pytest

from app.rating.errors import VotesError
from app.rating.settings import SettingError
from app.rating.units import ELO_PER_NATURAL
from app.rating.verdict.round import run_round
from app.rating.verdict.style import control_style
from app.rating.votes.measures import Features
from stable_arena import AmElo
from tests.fixtures.errors import having
from tests.rating.model.styled_world import SETTINGS, StyledWorld, draw_styled

FEATURES = ("side", "length")


@pytest.fixture(scope="module")
def world() -> StyledWorld:
    """60 annotators with 150 votes each; a length in words that differs as the world's feature does."""
    return draw_styled(60, 150)


@pytest.fixture(scope="module")
def votes(world: StyledWorld) -> pl.DataFrame:
    """The same as a table: a difference of d is one of tanh d between two lengths."""
    drawn, length = world.votes, world.features.values[:, 1]
    return pl.DataFrame(
        {
            "annotator": [drawn.annotators[k] for k in drawn.annotator],
            "model_a": [drawn.models[i] for i in drawn.model_a],
            "model_b": [drawn.models[i] for i in drawn.model_b],
            "winner": drawn.outcome,
            "length_a": length,
            "length_b": np.zeros(len(length)),
        }
    )


@pytest.fixture(scope="module")
def fitted(votes: pl.DataFrame) -> AmElo:
    """With style control."""
    return AmElo(min_votes=0, flag_rule="threshold", features=FEATURES).fit(votes)


def test_style_control_finds_the_crowds_taste_and_the_scores_beside_it(fitted: AmElo, world: StyledWorld) -> None:
    style = fitted.style
    assert style["feature"].to_list() == list(FEATURES)
    truth = world.gamma * ELO_PER_NATURAL
    assert np.all(np.abs(style["points"].to_numpy() - truth) < 3 * style["se"].to_numpy())
    assert np.all(np.abs(style["spread"].to_numpy() - 0.3 * ELO_PER_NATURAL) < 15)
    assert fitted.plain_ is not None
    scores = {row["model"]: row["score"] for row in fitted.leaderboard.iter_rows(named=True)}
    styled = np.array([scores[name] for name in world.votes.models])
    errors = [np.sqrt(np.mean((s - s.mean() - world.R * ELO_PER_NATURAL) ** 2))
              for s in (styled, fitted.plain_.models.score)]  # fmt: skip
    assert errors[0] < 0.7 * errors[1]


def test_leans_are_each_annotators_own(fitted: AmElo, world: StyledWorld) -> None:
    leans = fitted.leans
    assert leans.height == 120
    assert world.leans is not None
    total = ELO_PER_NATURAL * (world.ability[:, None] * world.gamma + world.leans)
    inside = (leans["lower"].to_numpy() <= total.ravel()) & (total.ravel() <= leans["upper"].to_numpy())
    assert 0.9 <= inside.mean() <= 0.99
    assert np.corrcoef(leans["own"].to_numpy(), world.leans.ravel())[0, 1] > 0.7


def test_short_histories_do_not_look_like_leans() -> None:
    world, generator = draw_styled(600, 30), np.random.default_rng(1)
    noise = generator.normal(size=(len(world.votes.outcome), 3))
    features = Features((*world.features.names, "a", "b", "c"), np.column_stack([world.features.values, noise]))
    spread = control_style(run_round(world.votes.aggregate(), SETTINGS), world.votes, features).style.spread
    np.testing.assert_allclose(spread / ELO_PER_NATURAL, [0.3, 0.3, 0.0, 0.0, 0.0], atol=0.12)


def test_annotators_outside_the_fit_have_leans_at_its_scores() -> None:
    world, outside = draw_styled(24, 150), np.arange(24) < 4
    cells = world.votes.aggregate()
    part, whole = (
        control_style(run_round(cells, SETTINGS, keep_never=never), world.votes, world.features).style
        for never in (outside, np.zeros(24, dtype=bool))
    )
    assert world.leans is not None
    away = (part.own - ELO_PER_NATURAL * world.leans)[outside] / part.own_se[outside]
    assert np.abs(away).max() < 3.0
    assert np.all(np.abs(part.own - whole.own)[outside] < 0.5 * whole.own_se[outside])
    np.testing.assert_allclose(part.own_se[outside], whole.own_se[outside], rtol=0.2)


def test_without_intervals_there_are_no_errors(votes: pl.DataFrame, fitted: AmElo) -> None:
    bare = AmElo(min_votes=0, flag_rule="threshold", features=FEATURES, interval="none").fit(votes)
    assert bare.style["se"].to_list() == [None, None]
    assert bare.style["points"].to_list() == fitted.style["points"].to_list()


def test_a_fit_without_features_has_no_style(votes: pl.DataFrame) -> None:
    plain = AmElo(min_votes=0, flag_rule="threshold").fit(votes)
    assert plain.plain_ is None
    with pytest.raises(ValueError, match="features"):
        _ = plain.style


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"prior_sd": None, "influence_limit": None}, "features"),
        ({"interval": "sandwich"}, "interval"),
    ],
)
def test_style_control_needs_a_prior_and_clustered_intervals(
    votes: pl.DataFrame, given: dict[str, object], name: str
) -> None:
    with pytest.raises(SettingError, check=having(name=name)):
        AmElo(min_votes=0, features=FEATURES).set_params(**given).fit(votes)


def test_a_feature_without_columns_is_refused(votes: pl.DataFrame) -> None:
    with pytest.raises(VotesError, check=having(code="column")):
        AmElo(features=("bold",)).fit(votes)


def test_one_annotator_has_no_style(votes: pl.DataFrame) -> None:
    alone = votes.filter(pl.col("annotator") == "k0000")
    with pytest.raises(VotesError, match="two annotators"):
        AmElo(min_votes=0, flag_rule="threshold", features=("side",)).fit(alone)
