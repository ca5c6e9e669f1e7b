"""What is known of a fit, as plain data."""

from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import NDArray

from app.rating.arrays import Floats, Indices, Mask
from app.rating.errors import RatingNotice
from app.rating.fitted import FitResult
from app.rating.model.law import Law
from app.rating.model.scores import MarginalFit
from app.rating.settings import Interval, LoopSettings
from app.rating.uncertainty.covariance import Covariance
from app.rating.units import ELO_PER_NATURAL
from app.rating.votes.cells import Cells, Compact
from app.rating.votes.graph import Components
from app.rating.votes.prompts import PromptCells


@dataclass(frozen=True)
class ModelEstimates:
    """Models' results, arrays of shape (n_models,), index order as in the votes.

    A model without a counted vote has `votes` 0 and component −1. A model that is not identified has score and
    se NaN; its votes against identified models give a finite lower or upper bound, the other end is infinite. Its place
    follows the wins of the models over each other.

    Attributes
    ----------
    score, se, lower, upper : Elo points
    rank : 1 is best, among the `ranked` models of the component; the others' come after these, for order alone
    best_rank, worst_rank : ranks that the differences to the other models allow, each as clear as two intervals that
        do not overlap; 0 for a model without a rank
    rank_set_best, rank_set_worst : rank sets that contain the true ranks of all ranked models of a component together;
        0 without intervals and for a model without a rank
    votes, wins, ties, losses : counted votes on the model
    class_rank : class of the models that cannot be told apart from its best one by their difference, 1 is best, within
        the component; 0 without a rank or intervals
    component : index of the connected component, 0 the one with most votes; −1 for none
    identified : whether the votes give the model a finite score
    provisional : whether the model has too few votes or annotators, or too wide an interval, to be ranked
    sureness : how sure it is that the row's model is better than the column's, of `app.rating.uncertainty.ranks`; 0
        without intervals and without a rank; int8, shape (n_models, n_models)
    """

    score: Floats
    se: Floats
    lower: Floats
    upper: Floats
    rank: Indices
    best_rank: Indices
    worst_rank: Indices
    rank_set_best: Indices
    rank_set_worst: Indices
    class_rank: Indices
    votes: Floats
    wins: Floats
    ties: Floats
    losses: Floats
    component: Indices
    identified: Mask
    provisional: Mask
    sureness: NDArray[np.int8]

    @property
    def ranked(self) -> Mask:
        """Models that have a rank: those with votes that are not provisional, shape (n_models,)."""
        ranked: Mask = (self.component >= 0) & ~self.provisional
        return ranked


@dataclass(frozen=True)
class Start:
    """Results of an earlier round, to start the next fit from; values that are not finite are unknown.

    Attributes
    ----------
    score : Elo points, any base, shape (n_models,)
    law : of the crowd, of a fit with abilities integrated out
    """

    score: Floats
    law: Law | None = None

    def natural_scores(self, models: Indices) -> Floats:
        """Return the scores of these models in natural units around 0, unknown ones at the mean of the others."""
        score = self.score[models] / ELO_PER_NATURAL
        known = np.isfinite(score)
        middle = float(score[known].mean()) if known.any() else 0.0
        natural: Floats = np.where(known, score - middle, 0.0)
        return natural


@dataclass(frozen=True)
class AnnotatorEstimates:
    """Annotators' results, arrays of shape (n_annotators,), index order as in the votes; NaN where undefined.

    Attributes
    ----------
    ability, se : 1 is the mean honest annotator; NaN outside the fit
    shadow_ability, shadow_se : of annotators outside the fit, against the published scores
    probability_low : P(a ≤ ε) of the ability or the shadow ability, whichever is defined
    votes : all votes of the annotator, counted or not
    standing : by the rule alone, without admin decisions: pending, active, flagged or excluded; annotators outside the
        fit are flagged by their shadow ability
    rule : what flagged the annotator: "ability" or the name of a test; "" for annotators who are not flagged
    held : flagged only because of `release_margin`: the rule flagged the annotator in the round before
    """

    ability: Floats
    se: Floats
    shadow_ability: Floats
    shadow_se: Floats
    probability_low: Floats
    votes: Floats
    standing: NDArray[np.str_]
    rule: NDArray[np.str_]
    held: Mask

    @classmethod
    def without_rules(cls, votes: Floats, ability: Floats, se: Floats) -> Self:
        """Return estimates that no rule has seen: annotators with votes are active.

        Parameters
        ----------
        votes : counted votes
        """
        unknown, held = np.full(len(votes), np.nan), np.zeros(len(votes), dtype=bool)
        standing, rule = np.where(votes > 0, "active", "pending"), np.full(len(votes), "")
        return cls(ability, se, unknown, unknown, unknown, votes, standing, rule, held)


@dataclass(frozen=True)
class Diagnostics:
    """How the fit went.

    Attributes
    ----------
    log_likelihood : of the counted votes alone, natural log, no prior term
    components : connected components of the comparison graph of the counted votes
    interval : the kind of interval that was made
    median_ability : 1, the mean ability; earlier versions divided abilities by it
    published_cap : None; snapshots of earlier versions have a cap on abilities here
    prior_sd, ability_spread : spread of honest abilities around 1; None for known abilities and for maximum likelihood
    ability_spread_se : None; earlier versions have its standard error here
    excluded_share : share of the votes past δ whose annotators are excluded (or would be, where the policy only flags)
    prompts : how many prompts the votes are on; None where prompts are not known
    prompt_share : share of the scores' variance that more votes on the same prompts would not lower; None like prompts
    seconds : stage → seconds ("fit", "intervals", "evidence")
    warnings : notices for the reader
    """

    log_likelihood: float
    iterations: int
    converged: bool
    components: int
    interval: Interval
    median_ability: float
    published_cap: float | None
    prior_sd: float | None
    ability_spread: float | None
    ability_spread_se: float | None
    excluded_share: float
    prompts: int | None = None
    prompt_share: float | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    warnings: tuple[RatingNotice, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A fit of the counted votes with its errors, with the models and annotators of the caller's indices.

    Attributes
    ----------
    cells : the counted votes
    pairs : their pair table
    components : of their comparison graph
    identified : models with a finite score, shape (n_models,)
    small : the cells between identified models, renumbered: the indices of `fit` and `covariance`
    fit : in units of the mean honest ability; maximum likelihood: of the mean ability of all in the fit
    marginal : the fit with abilities integrated out; None for known abilities and for maximum likelihood
    annotators : abilities; no rule has seen them, and every annotator with counted votes is active
    prompts : the votes of `small` with a prompt, with its indices; None where prompts are not known
    seconds : stage → seconds ("fit", "intervals", "evidence")
    """

    settings: LoopSettings
    cells: Cells
    pairs: Cells
    components: Components
    identified: Mask
    small: Compact
    fit: FitResult
    marginal: MarginalFit | None = None
    covariance: Covariance | None
    annotators: AnnotatorEstimates
    seconds: dict[str, float]
    prompts: PromptCells | None = None

    @property
    def has_abilities(self) -> bool:
        """False for m-ELO."""
        return self.settings.method == "am-elo"

    @property
    def votes_used(self) -> float:
        """How many votes count."""
        return self.cells.n_votes

    @property
    def bounding(self) -> Floats:
        """Abilities by which models without a score are bounded, 1 where the fit has none, shape (n_annotators,)."""
        theta = np.ones(self.cells.n_annotators)
        theta[self.small.annotators] = self.fit.theta
        return theta

    @property
    def optimum(self) -> Start:
        """The scores and the law, as the start of a later fit."""
        law = None if self.marginal is None else self.marginal.law
        return Start(ELO_PER_NATURAL * self.natural_scores(), law)

    def natural_scores(self) -> Floats:
        """Return R in natural units of the mean annotator, NaN for models that have no score, shape (n_models,)."""
        R = np.full(self.cells.n_models, np.nan)
        R[self.small.models] = self.fit.R
        return R
