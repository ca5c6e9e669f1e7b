import numpy as np
import pytest
from scipy.integrate import trapezoid
from scipy.special import expit

from app.rating.arrays import Floats
from app.rating.types.drift import ABILITIES, find_drift


def draw(seed: int, abilities: Floats) -> Floats:
    """Votes of an annotator with these abilities, between models with a sd of 140 points: their log-likelihoods."""
    rng = np.random.default_rng(seed)
    gap = rng.normal(0.0, 140.0 * np.sqrt(2.0) * np.log(10.0) / 400.0, len(abilities))
    won = rng.random(len(gap)) < expit(abilities * gap)
    table: Floats = np.log(expit(np.where(won, 1.0, -1.0)[:, None] * gap[:, None] * ABILITIES))
    return table


def twin_of_log_ratio(table: Floats) -> float:
    """The ratio as its definition has it, by the trapezoidal rule."""
    prior = np.exp(-0.5 * (ABILITIES - 1.0) ** 2)
    prior /= trapezoid(prior, ABILITIES)
    coin = list(np.round(ABILITIES, 6)).index(0.0)

    def marginal(votes: Floats) -> float:
        return float(trapezoid(np.exp(votes.sum(axis=0)) * prior, ABILITIES))

    terms = []
    for t in range(1, len(table)):
        x, y = table[:t], table[t:]
        terms.append(
            marginal(x) * marginal(y) / 2
            + marginal(x) * np.exp(y[:, coin].sum()) / 4
            + np.exp(x[:, coin].sum()) * marginal(y) / 4
        )
    return float(np.log(np.mean(terms) / marginal(table)))


@pytest.mark.parametrize("votes", [2, 3, 30])
def test_the_ratio_is_that_of_the_definition(votes: int) -> None:
    table = draw(votes, np.full(votes, 1.0))
    found = find_drift(table)
    assert found is not None
    assert found.log_ratio == pytest.approx(twin_of_log_ratio(table), abs=0.02)  # sums for integrals


def test_one_vote_cannot_change() -> None:
    assert find_drift(draw(0, np.ones(1))) is None
    assert find_drift(draw(0, np.ones(0))) is None


def test_an_annotator_who_turns_is_found_with_the_time_and_the_abilities() -> None:
    found = find_drift(draw(3, np.repeat([1.2, -1.0], 150)))
    assert found is not None
    assert found.log_ratio > np.log(1e6)
    assert found.votes_before == pytest.approx(150, abs=6)
    for (mean, sd), truth in ((found.before, 1.2), (found.after, -1.0)):
        assert abs(mean - truth) < 3 * sd < 1.5


def test_honest_annotators_hardly_ever_seem_to_change_and_coins_often() -> None:
    """An e-value reaches 100 in at most 1 % of the annotators with one ability."""
    rng = np.random.default_rng(8)
    honest = [find_drift(draw(k, np.full(120, ability))) for k, ability in enumerate(rng.normal(1.0, 0.4, 200))]
    coins = [find_drift(draw(k, np.repeat([1.0, 0.0], 150))) for k in range(60)]
    rates = [np.mean([one.log_ratio >= np.log(100.0) for one in found if one]) for found in (honest, coins)]
    assert rates[0] <= 0.01
    assert rates[1] >= 0.5
