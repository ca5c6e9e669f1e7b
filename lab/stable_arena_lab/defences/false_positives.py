"""Estimates the false positive rates of the tests on crowds like a real one, but with honest annotators only."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from app.rating.arrays import Floats
from app.rating.settings import EVIDENCE_TESTS, LoopSettings
from app.rating.types.evidence import Evidence
from app.rating.units import NATURAL_PER_ELO
from stable_arena_lab.attacks.arena import Votes
from stable_arena_lab.defences.review_trial import ReviewTrial
from stable_arena_lab.parallel import Progress, map_seeds
from stable_arena_lab.spread import mean_or_none, sd_or_none

FAMILY = 4  # models
AS_VOTED = "as voted"


@dataclass(frozen=True)
class Variation:
    """How honest votes deviate from the null model, standard deviations in Elo points.

    Attributes
    ----------
    taste : of each annotator's own opinion of each model
    family : of each annotator's own opinion of each family of four models, drawn at random
    answers : of a deviation of each pair's difference that all annotators share, as where they judge the same answers
    side : of each annotator's preference for the left side
    """

    taste: float = 0.0
    family: float = 0.0
    answers: float = 0.0
    side: float = 0.0


VARIATIONS = {
    "as the tests suppose": Variation(),
    "tastes differ, 70 points": Variation(taste=70.0),
    "tastes in families, 140 points": Variation(family=140.0),
    "the same answers, 100 points": Variation(answers=100.0),
    "the same answers, 300 points": Variation(answers=300.0),
    "lean to a side, 70 points": Variation(side=70.0),
}


@dataclass(frozen=True)
class FalsePositives:
    """Share of annotators with enough votes that a rule flags: mean and standard deviation over crowds."""

    nature: str
    rule: str
    annotators: int
    share: float
    sd: float | None


@dataclass(frozen=True)
class HonestModel:
    """A real crowd's battles and scores, and the distribution of its honest annotators.

    Attributes
    ----------
    R : natural units, 0 for models without a score
    evidence : its law of honest abilities, and every annotator's readiness to tie
    """

    votes: Votes
    R: Floats
    evidence: Evidence


def fit_honest_model(votes: Votes, settings: LoopSettings) -> HonestModel:
    """Fit the model from which `resample` draws."""
    review = ReviewTrial(votes, settings)
    return HonestModel(votes, np.nan_to_num(review.R), review.evidence)


def resample(model: HonestModel, nature: Variation, seed: int) -> Votes:
    """Draw new honest outcomes for all votes: a parametric bootstrap.

    Battles and scores are the real ones. Abilities are drawn from the distribution of honest annotators; every
    annotator keeps the estimated tie propensity, as far as honest ones have it.
    """
    generator = np.random.default_rng(seed)
    votes, law, habits, R = model.votes, model.evidence.law, model.evidence.habits, model.R
    people, models = votes.n_annotators, votes.n_models
    ready = np.minimum(habits.tie_log, law.ties + 2.0 * law.ties_spread)  # who always ties is not honest
    typical = habits.typical / law.mean * law.centre
    ability = typical * np.exp(law.spread * generator.standard_normal(people))
    seen = R + NATURAL_PER_ELO * nature.taste * generator.standard_normal((people, models))
    families = generator.permutation(models) // FAMILY
    liked = generator.standard_normal((people, int(families.max()) + 1))[:, families]
    seen += NATURAL_PER_ELO * nature.family * liked
    of_pair = np.triu(NATURAL_PER_ELO * nature.answers * generator.standard_normal((models, models)), 1)
    of_pair -= of_pair.T
    lean = NATURAL_PER_ELO * nature.side * generator.standard_normal(people)
    k = votes.annotator
    d = seen[k, votes.left] - seen[k, votes.right] + of_pair[votes.left, votes.right] + lean[k]
    up, tie = np.exp(0.5 * ability[k] * d), np.exp(ready)[k]
    draw = generator.random(len(k)) * (up + tie + 1.0 / up)
    return replace(votes, outcome=np.where(draw < up, 1.0, np.where(draw < up + tie, 0.5, 0.0)))


def find_false_positives(
    votes: Votes,
    settings: LoopSettings,
    *,
    seeds: Sequence[int],
    variations: Sequence[str] = tuple(VARIATIONS),
    processes: int = 1,
    progress: Progress | None = None,
) -> list[FalsePositives]:
    """Compute the share of annotators that ε, each test at a ratio of 100, and any test flag.

    In the real votes, and in resampled honest ones. Annotators with δ votes or fewer are left out, as in the loop.
    """
    tested = np.bincount(votes.annotator, minlength=votes.n_annotators) > settings.min_votes
    people = int(tested.sum())
    votes = votes.where(tested[votes.annotator])
    model = fit_honest_model(votes, settings)
    rows = [FalsePositives(AS_VOTED, rule, people, share, None) for rule, share in _mark(votes, settings).items()]
    for done, nature in enumerate(variations):
        work = partial(_mark_honest, model=model, settings=settings, nature=VARIATIONS[nature])
        trials = map_seeds(work, seeds, processes=processes)
        for rule in trials[0]:
            shares = [trial[rule] for trial in trials]
            rows.append(FalsePositives(nature, rule, people, mean_or_none(shares) or 0.0, sd_or_none(shares)))
        if progress is not None:
            progress((done + 1) / len(variations))
    return rows


def _mark_honest(seed: int, *, model: HonestModel, settings: LoopSettings, nature: Variation) -> dict[str, float]:
    return _mark(resample(model, nature, seed), settings)


def _mark(votes: Votes, settings: LoopSettings) -> dict[str, float]:
    """Return the share of the tested annotators that each rule flags."""
    review = ReviewTrial(votes, settings)
    tested = review.cells.votes_by_annotator() > 0
    marks = {"ε": review.threshold()}
    marks |= {test: review.test(test) for test in EVIDENCE_TESTS}
    marks["any test"] = review.any_test()
    return {rule: float(marked[tested].mean()) for rule, marked in marks.items()}
