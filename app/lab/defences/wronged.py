"""Whom the tests mark in a crowd, and whom they would wrong in one like it, were everybody in it honest."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from app.lab.attacks.arena import Votes
from app.lab.defences.hearing import Hearing
from app.lab.parallel import Progress, map_seeds
from app.lab.simulate import NATURAL_PER_ELO
from app.lab.spread import mean_or_none, sd_or_none
from app.rating.data.arrays import Floats
from app.rating.detection.null_model import NullModel
from app.rating.settings import EVIDENCE_TESTS, SERVICE_TESTS, LoopSettings

FAMILY = 4  # models
AS_VOTED = "as voted"


@dataclass(frozen=True)
class Nature:
    """What makes honest votes other than the tests suppose, standard deviations in Elo points.

    Attributes
    ----------
    taste : of each annotator's own opinion of each model
    family : of each annotator's own opinion of each family of four models, drawn at random
    answers : of what two models' answers add to their scores' difference, the same for all who judge the pair: as
        where everybody judges the same answers
    side : of each annotator's preference for the left side
    """

    taste: float = 0.0
    family: float = 0.0
    answers: float = 0.0
    side: float = 0.0


NATURES = {
    "as the tests suppose": Nature(),
    "tastes differ, 70 points": Nature(taste=70.0),
    "tastes in families, 140 points": Nature(family=140.0),
    "the same answers, 100 points": Nature(answers=100.0),
    "the same answers, 300 points": Nature(answers=300.0),
    "lean to a side, 70 points": Nature(side=70.0),
}


@dataclass(frozen=True)
class WrongedRow:
    """Annotators with enough votes whom a rule marks, over crowds: mean and standard deviation of the share."""

    nature: str
    rule: str
    annotators: int
    share: float
    sd: float | None


@dataclass(frozen=True)
class Likeness:
    """What is kept of a real crowd: who judged which battles, the scores, how able and how ready to tie people are.

    Attributes
    ----------
    votes : as they came in
    R : natural units, 0 where there is no score
    """

    votes: Votes
    R: Floats
    crowd: NullModel


def liken(votes: Votes, settings: LoopSettings) -> Likeness:
    """Fit what `resample` draws from."""
    hearing = Hearing(votes, settings)
    return Likeness(votes, np.nan_to_num(hearing.R), hearing.evidence.null_model)


def resample(likeness: Likeness, nature: Nature, seed: int) -> Votes:
    """Draw everybody's verdicts anew, all of them honest: a parametric bootstrap.

    Battles and the models' scores are the real ones; abilities are drawn from the crowd's distribution of honest ones,
    everybody calls ties as readily as in fact.
    """
    generator = np.random.default_rng(seed)
    votes, crowd, R = likeness.votes, likeness.crowd, likeness.R
    people, models = votes.n_annotators, votes.n_models
    ability = crowd.typical * np.exp(crowd.spread * generator.standard_normal(people))
    seen = R + NATURAL_PER_ELO * nature.taste * generator.standard_normal((people, models))
    families = generator.permutation(models) // FAMILY
    liked = generator.standard_normal((people, int(families.max()) + 1))[:, families]
    seen += NATURAL_PER_ELO * nature.family * liked
    of_pair = np.triu(NATURAL_PER_ELO * nature.answers * generator.standard_normal((models, models)), 1)
    of_pair -= of_pair.T
    lean = NATURAL_PER_ELO * nature.side * generator.standard_normal(people)
    k = votes.annotator
    d = seen[k, votes.left] - seen[k, votes.right] + of_pair[votes.left, votes.right] + lean[k]
    up, even = np.exp(0.5 * ability[k] * d), crowd.tie_propensity[k]
    draw = generator.random(len(k)) * (up + even + 1.0 / up)
    return replace(votes, outcome=np.where(draw < up, 1.0, np.where(draw < up + even, 0.5, 0.0)))


def find_wronged(
    votes: Votes,
    settings: LoopSettings,
    *,
    seeds: Sequence[int],
    natures: Sequence[str] = tuple(NATURES),
    processes: int = 1,
    progress: Progress | None = None,
) -> list[WrongedRow]:
    """Count whom each test at a ratio of 100, any of them, and ε mark, as voted and if the crowd were honest.

    Of annotators with more than δ votes; the others are left out, as the loop does.
    """
    judged = np.bincount(votes.annotator, minlength=votes.n_annotators) > settings.min_votes
    people = int(judged.sum())
    votes = votes.where(judged[votes.annotator])
    likeness = liken(votes, settings)
    rows = [WrongedRow(AS_VOTED, rule, people, share, None) for rule, share in _mark(votes, settings).items()]
    for done, nature in enumerate(natures):
        work = partial(_mark_honest, likeness=likeness, settings=settings, nature=NATURES[nature])
        trials = map_seeds(work, seeds, processes=processes)
        for rule in trials[0]:
            shares = [trial[rule] for trial in trials]
            rows.append(WrongedRow(nature, rule, people, mean_or_none(shares) or 0.0, sd_or_none(shares)))
        if progress is not None:
            progress((done + 1) / len(natures))
    return rows


def _mark_honest(seed: int, *, likeness: Likeness, settings: LoopSettings, nature: Nature) -> dict[str, float]:
    return _mark(resample(likeness, nature, seed), settings)


def _mark(votes: Votes, settings: LoopSettings) -> dict[str, float]:
    """Share of the judged annotators whom each rule marks."""
    hearing = Hearing(votes, settings)
    judged = hearing.cells.votes_by_annotator() > 0
    marks = {"ε": hearing.threshold()}
    marks |= {test: hearing.test(test) for test in EVIDENCE_TESTS}
    marks["the service's"] = hearing.evidence.flagged(SERVICE_TESTS)
    marks["any test"] = hearing.any_test()
    return {rule: float(marked[judged].mean()) for rule, marked in marks.items()}
