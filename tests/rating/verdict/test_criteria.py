"""Leaderboards of weighted criteria: known answers, what is refused, and coverage where criteria hang together."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logit, ndtr

from app.rating.errors import VotesError
from app.rating.settings import LoopSettings
from app.rating.uncertainty.covariance import contrast_errors
from app.rating.uncertainty.freedom import critical_values
from app.rating.units import ELO_PER_NATURAL
from app.rating.verdict.criteria import Criteria
from app.rating.verdict.rating import Rating
from app.rating.verdict.round import run_round
from app.rating.votes.cells import aggregate
from app.rating.votes.prompts import PromptCells

MARGINAL = LoopSettings(min_votes=0, flag_rule="threshold")
M_ELO = replace(MARGINAL, method="m-elo")
MODELS = 6
ATTENUATION = 0.3458  # of a logistic probability, for each unit of variance that is averaged over


def rate(
    outcomes: Sequence[np.ndarray], annotator: np.ndarray, sides: np.ndarray, prompt: np.ndarray | None = None,
    settings: LoopSettings = MARGINAL, annotators: int | None = None,
) -> list[Rating]:  # fmt: skip
    sizes = {"n_annotators": annotators or int(annotator.max()) + 1, "n_models": MODELS}
    columns = annotator, sides[0], sides[1]
    by_prompt = [None if prompt is None else PromptCells.of_votes(prompt, *columns, W, **sizes) for W in outcomes]
    return [
        run_round(aggregate(*columns, W, **sizes), settings, prompts=cells)
        for W, cells in zip(outcomes, by_prompt, strict=True)
    ]


def draw(
    seed: int, rho: float, *, annotators: int = 40, each: int = 60, criteria: int = 3, prompts: int = 0,
    by_prompt: float = 0.0, taste: float = 0.0,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:  # fmt: skip
    """Return true scores by criterion, natural units; outcomes by criterion; annotators, sides and prompts of votes.

    What annotators see in an answer, and what they and prompts have against models, has the correlation rho.
    """
    generator, size = np.random.default_rng(seed), annotators * each
    truth = generator.normal(0.0, 0.8, (criteria, MODELS))
    ability, annotator = generator.gamma(16.0, 1 / 16, annotators), np.repeat(np.arange(annotators), each)
    a = generator.integers(MODELS, size=size)
    b = (a + generator.integers(1, MODELS, size)) % MODELS
    prompt = generator.integers(prompts, size=size) if prompts else None

    def correlated(*shape: int) -> np.ndarray:
        own = generator.standard_normal((criteria, *shape))
        return np.sqrt(rho) * generator.standard_normal(shape) + np.sqrt(1.0 - rho) * own

    noise, own = logit(ndtr(correlated(size))), taste * correlated(annotators, MODELS)[:, annotator]
    if prompt is not None:
        own = own + by_prompt * correlated(prompts, MODELS)[:, prompt]
    rows = np.arange(size)
    difference = truth[:, a] - truth[:, b] + own[:, rows, a] - own[:, rows, b]
    outcomes = (ability[annotator] * difference + noise > 0.0).astype(float)
    truth /= np.sqrt(1.0 + 2.0 * ATTENUATION * (by_prompt**2 * bool(prompts) + taste**2))
    return truth, outcomes, annotator, np.stack([a, b]), prompt


@pytest.mark.parametrize("settings", [MARGINAL, M_ELO], ids=["am-elo", "m-elo"])
@pytest.mark.parametrize("prompts", [0, 20])
def test_one_criterion_or_the_same_votes_by_two_have_their_own_board(settings: LoopSettings, prompts: int) -> None:
    _, outcomes, annotator, sides, prompt = draw(1, 0.3, annotators=12, prompts=prompts, by_prompt=0.8)
    ratings = rate([outcomes[0], outcomes[0], outcomes[1]], annotator, sides, prompt, settings)
    found = Criteria(ratings[0], ratings)
    for share in ([1.0, 0.0, 0.0], [0.3, 0.7, 0.0]):
        weighted = found.weigh(np.array(share))
        assert weighted.covariance is not None
        assert ratings[0].covariance is not None
        np.testing.assert_allclose(weighted.covariance.scores, ratings[0].covariance.scores, rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(weighted.covariance.freedom, ratings[0].covariance.freedom, rtol=1e-4)
        np.testing.assert_allclose(weighted.models.score, ratings[0].models.score, atol=1e-6)
        np.testing.assert_array_equal(weighted.models.votes, ratings[0].models.votes * np.count_nonzero(share))
    assert found.rating(2) is ratings[2]
    assert not np.any(found.differences(0))
    difference, se = found.differences(1)
    np.testing.assert_allclose([difference, se], 0.0, atol=0.5)


def test_criteria_of_other_annotators_have_independent_errors() -> None:
    _, outcomes, annotator, sides, _ = draw(2, 0.5, annotators=20)
    half = annotator < 10
    parts = [
        rate([W[part]], annotator[part], sides[:, part], annotators=20)[0]
        for W, part in zip(outcomes, (half, ~half), strict=False)
    ]
    share = np.array([0.25, 0.75])
    weighted = Criteria(parts[0], parts).weigh(share)
    own = [rating.covariance for rating in parts]
    assert weighted.covariance is not None
    alone = sum(w**2 * each.scores for w, each in zip(share, own, strict=True) if each is not None)
    np.testing.assert_allclose(weighted.covariance.scores, alone, rtol=1e-5, atol=1e-7)
    assert (weighted.covariance.freedom > np.min([each.freedom for each in own if each is not None], axis=0)).all()


def test_near_copies_are_one_annotator_by_all_criteria() -> None:
    """Ten annotators who vote five times each are as many as they are, whatever their keys."""
    _, outcomes, annotator, sides, _ = draw(3, 0.9, annotators=10, each=200)
    keys = np.concatenate([annotator + 10 * copy for copy in range(5)])
    honest, copied = (
        rate([np.tile(W, times) for W in outcomes[:2]], whose, np.tile(sides, times))
        for times, whose in ((1, annotator), (5, keys))
    )
    for share in ([1.0, 0.0], [0.5, 0.5]):
        once, often = (Criteria(each[0], each).weigh(np.array(share)).covariance for each in (honest, copied))
        assert once is not None
        assert often is not None
        assert (once.clusters, often.clusters) == (10, 10)
        np.testing.assert_allclose(often.freedom, once.freedom, rtol=0.1)
        np.testing.assert_allclose(np.diag(often.scores), np.diag(once.scores), rtol=0.25)
    own = copied[0].covariance
    assert own is not None
    alone = Criteria(copied[0], copied).weigh(np.array([1.0, 0.0])).covariance
    np.testing.assert_allclose(0.0 if alone is None else alone.scores, own.scores, rtol=1e-4, atol=1e-6)


def test_a_model_without_a_score_by_a_criterion_has_none_by_all() -> None:
    """The last model wins every vote by the second criterion, which says how far it is at least, and no score."""
    _, outcomes, annotator, sides, _ = draw(4, 0.5, annotators=10)
    outcomes[1][sides[0] == MODELS - 1], outcomes[1][sides[1] == MODELS - 1] = 1.0, 0.0
    ratings = rate(outcomes, annotator, sides)
    share = np.array([0.5, 0.25, 0.25])
    models = Criteria(ratings[0], ratings).weigh(share).models
    np.testing.assert_array_equal(models.component, [0] * (MODELS - 1) + [-1])
    assert models.votes[-1] == 0
    scored = slice(MODELS - 1)
    expected = share @ np.stack([rating.models.score[scored] for rating in ratings])
    gaps = expected - expected.mean(), models.score[scored] - models.score[scored].mean()
    np.testing.assert_allclose(*gaps, atol=1e-6)


def test_what_has_no_joint_errors_is_refused() -> None:
    _, outcomes, annotator, sides, prompt = draw(5, 0.5, annotators=6, prompts=10)
    share = np.array([0.5, 0.5])

    def weigh(settings: LoopSettings = MARGINAL, *, alone: bool = False, prompts: bool = False) -> Rating:
        whose = annotator * 0 if alone else annotator
        ratings = rate(outcomes[:2], whose, sides, prompt if prompts else None, settings)
        return Criteria(ratings[0], ratings).weigh(share)

    for settings in (replace(MARGINAL, interval="sandwich"), replace(MARGINAL, prior_sd=None, influence_limit=None)):
        with pytest.raises(VotesError):
            weigh(settings)
    with pytest.raises(VotesError, match="prompts"):
        weigh(alone=True)
    assert weigh(alone=True, prompts=True).models.se.max() > 0.0
    assert weigh(replace(MARGINAL, interval="none")).covariance is None
    groups = (sides < 3).all(axis=0), (sides >= 3).all(axis=0)
    apart = [rate([outcomes[0][here]], annotator[here], sides[:, here])[0] for here in groups]
    with pytest.raises(VotesError, match="no model"):
        Criteria(apart[0], apart).weigh(share)


@pytest.mark.campaign
@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
@pytest.mark.parametrize(
    "world",
    [{}, {"taste": 0.3}, {"prompts": 40, "by_prompt": 0.5}, {"annotators": 10, "each": 150}],
    ids=["votes", "annotators", "prompts", "few"],
)
def test_intervals_hold_where_criteria_hang_together(rho: float, world: dict[str, float]) -> None:
    """Errors that take criteria as independent hold .84 to .89 at a correlation of .9."""
    share, (i, j), held, alone = np.array([0.5, 0.3, 0.2]), np.triu_indices(MODELS, 1), [], []
    for seed in range(100):
        truth, outcomes, *votes = draw(seed, rho, **world)  # type: ignore[arg-type]  # whole numbers and others
        ratings = rate(outcomes, *votes)
        weighted, true = Criteria(ratings[0], ratings).weigh(share), share @ truth
        error = np.abs(weighted.models.score[i] - weighted.models.score[j] - ELO_PER_NATURAL * (true[i] - true[j]))
        assert weighted.covariance is not None
        wide = ELO_PER_NATURAL * critical_values(weighted.covariance.contrast_freedom(i, j), 0.95)
        naive = sum(w**2 * one.covariance.scores for w, one in zip(share, ratings, strict=True) if one.covariance)
        held.append(np.mean(error <= wide * contrast_errors(weighted.covariance.scores, i, j)))
        alone.append(np.mean(error <= wide * contrast_errors(np.asarray(naive), i, j)))
    assert 0.93 <= np.mean(held) <= 0.97
    assert np.mean(alone) < (0.92 if rho == 0.9 else 1.0)
