"""The people's own leaderboard, and what it says of the true scores: what judges are compared with."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from app.rating.arrays import Floats, Indices
from app.rating.errors import VotesError
from app.rating.judges.ballots import Ballots
from app.rating.settings import LoopSettings
from app.rating.uncertainty.freedom import NORMAL
from app.rating.uncertainty.notices import FEWEST
from app.rating.verdict.rating import Rating, estimate
from app.rating.verdict.round import run_round

FEW = 20  # people past δ, from which the rules tell who of them votes badly


def rate_people(ballots: Ballots, settings: LoopSettings) -> Rating:
    """Rate the people: by the rules where 20 of them have more than δ votes, else all of them.

    With fewer than five people by m-ELO, and the error is by votes, of these people: nothing says how people differ, so
    that the unit is their mean, and no law's. Where their votes have prompts, these are a sample too.

    Raises
    ------
    VotesError
        No vote is by a person.
    NotConvergedError, NoCommonRankingError
    """
    cells = ballots.cells()
    if len(cells.n) == 0:
        raise VotesError("no vote is by a person", "no-votes")
    votes = cells.votes_by_annotator()
    if int((votes > settings.min_votes).sum()) >= FEW:
        return run_round(cells, settings, prompts=ballots.by_prompt())
    settings = replace(settings, min_votes=0, interval="clustered")
    if int((votes > 0).sum()) < FEWEST:
        settings = replace(settings, method="m-elo", interval="sandwich")
    return estimate(cells, settings, prompts=ballots.by_prompt())


class BattleErrors(NamedTuple):
    """Errors of scores by battle: by_battle @ moves, shapes (n_battles, n_terms) and (n_terms, n_models)."""

    by_battle: csr_array[Any, tuple[int, int]]
    moves: Floats


@dataclass(frozen=True)
class PeoplesScores:
    """The people's scores as judges are compared with them: what is known of the true ones.

    Attributes
    ----------
    models : those of the largest component that have a score, shape (n,)
    score : E[S | votes], natural units of the people's mean annotator, mean 0, shape (n,)
    covariance : of the true scores around it, shape (n, n)
    scale_se : relative error of how far apart the true scores are, because τ² is estimated
    freedom : degrees of freedom of the people's errors
    shared : what battles that a judge may have seen too have in these errors; None: nothing
    """

    models: Indices
    score: Floats
    covariance: Floats
    scale_se: float
    freedom: float
    shared: "BattleErrors | None" = None

    def doubt(self) -> Floats:
        """Return the variance of each difference between two scores, shape (n, n)."""
        variance = np.diag(self.covariance)
        doubt: Floats = variance[:, None] + variance - 2.0 * self.covariance
        return doubt


NO_SCORES = PeoplesScores(np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros((0, 0)), np.nan, np.nan)


def learn_scores(people: Rating, shared: BattleErrors | None = None) -> PeoplesScores:
    """Return what the people's leaderboard says of the true scores: S ~ N(0, τ²) around their mean, τ² by moments.

    Scores that are taken as they are have errors, which make a judge seem to follow them less. With few votes of people
    that halves abilities; these means and the covariance undo it (regression calibration).

    Raises
    ------
    VotesError
        The people's votes do not tell the models apart.

    References
    ----------
    Carroll, Ruppert, Stefanski and Crainiceanu, Measurement Error in Nonlinear Models (2006), chapter 4.
    """
    label = people.components.label
    models = np.flatnonzero(people.identified & (label == 0))
    inside = np.isin(people.small.models, models)
    if people.covariance is None or len(models) < 2:  # noqa: PLR2004  one score has no difference
        raise VotesError("the people's votes give fewer than two models a score: judges cannot be compared with them")
    R = people.natural_scores()[models]
    values, vectors = np.linalg.eigh(people.covariance.scores[np.ix_(inside, inside)])
    values = np.maximum(values, 0.0)
    variance = (float((R - R.mean()) @ (R - R.mean())) - float(values.sum())) / (len(R) - 1)
    if variance <= 0.0:
        raise VotesError("the people's votes do not tell the models apart: judges cannot be compared with them")
    kept = variance / (variance + values)
    score = (vectors * kept) @ (vectors.T @ (R - R.mean()))
    scale_se = float(values.sum()) / (len(R) - 1) / variance * np.sqrt(2.0 / (len(R) - 1))
    freedom = 1.0 / max(float(np.mean(1.0 / people.covariance.freedom[inside])), 1.0 / NORMAL)
    covariance, drawn = (vectors * (kept * values)) @ vectors.T, (vectors * kept) @ vectors.T
    if shared is not None:
        shared = shared._replace(moves=shared.moves[:, inside] @ drawn)
    return PeoplesScores(models, score, covariance, float(scale_se), freedom, shared)
