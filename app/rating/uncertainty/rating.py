from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from app.rating.arrays import Floats, Mask
from app.rating.fit.result import FitResult
from app.rating.fit.scale import ELO_PER_NATURAL
from app.rating.fit.warm_start import Start
from app.rating.settings import LoopSettings
from app.rating.uncertainty.covariance import Covariance
from app.rating.uncertainty.models import make_model_estimates
from app.rating.uncertainty.notices import find_notices
from app.rating.uncertainty.results import AnnotatorEstimates, Diagnostics, ModelEstimates, RatingNotice
from app.rating.votes.cells import Cells
from app.rating.votes.compact import Compact
from app.rating.votes.graph import Components

if TYPE_CHECKING:
    from app.rating.detection.evidence import Evidence


@dataclass(frozen=True, kw_only=True)
class Rating:
    """A fit of the counted votes, and what is published of it, with the models and annotators of the caller's indices.

    Attributes
    ----------
    cells : the counted votes
    pairs : their pair table
    components : of their comparison graph
    identified : models with a finite score, shape (n_models,)
    small : the cells between identified models, renumbered: the indices of `fit` and `covariance`
    fit : the solver's result, and its scores and abilities less their bias
    unit : typical ability of each model's scale group, shape (small.models,); 1 for m-ELO
    annotator_unit : the same for each annotator of `small`
    annotators : abilities, and what the rules say of all annotators; of a fit outside the loop every annotator with
        counted votes is active
    evidence : what the tests say of every annotator past δ; None where no test was made
    excluded_share : share of the votes past δ whose annotators are excluded (or would be, where the policy only flags)
    seconds : stage → seconds ("fit", "intervals", "evidence")
    further : notices beside those that the fit itself has
    """

    settings: LoopSettings
    cells: Cells
    pairs: Cells
    components: Components
    identified: Mask
    small: Compact
    fit: FitResult
    covariance: Covariance | None
    unit: Floats
    annotator_unit: Floats
    annotators: AnnotatorEstimates
    evidence: "Evidence | None" = None
    excluded_share: float = 0.0
    seconds: dict[str, float]
    further: tuple[RatingNotice, ...] = ()

    @cached_property
    def models(self) -> ModelEstimates:
        """The models in Elo points, with intervals and ranks.

        Raises
        ------
        VotesError
            The anchor model has no score.
        """
        return make_model_estimates(self)

    @cached_property
    def diagnostics(self) -> Diagnostics:
        """How the fit went, with its notices."""
        fit, prior, median = self.fit, self.fit.prior, self.typical
        estimated = prior if prior is not None and np.isfinite(prior.se) else None
        return Diagnostics(
            log_likelihood=fit.log_likelihood,
            iterations=fit.iterations,
            converged=True,  # else the fit raises NotConvergedError
            components=self.components.number,
            interval="none" if self.covariance is None else self.covariance.kind,
            median_ability=median,
            published_cap=self.published_cap,
            prior_sd=fit.prior_sd,
            ability_spread=None if estimated is None else estimated.spread / median,
            ability_spread_se=None if estimated is None else estimated.se / median,
            excluded_share=self.excluded_share,
            seconds=self.seconds,
            warnings=(*find_notices(self), *self.further),
        )

    @property
    def has_abilities(self) -> bool:
        """False for m-ELO."""
        return self.settings.method == "am-elo"

    @property
    def votes_used(self) -> float:
        """How many votes count."""
        return self.cells.n_votes

    @property
    def typical(self) -> float:
        """Median ability of the largest scale group, by which published abilities are divided; 1 for m-ELO."""
        if len(self.annotator_unit) == 0:
            return 1.0
        units, size = np.unique(self.annotator_unit, return_counts=True)
        return float(units[np.argmax(size)])

    @property
    def published_cap(self) -> float | None:
        """The cap in units of the typical ability, None without a cap."""
        cap = self.settings.ability_cap
        return cap / self.typical if cap is not None and self.has_abilities else None

    @property
    def optimum(self) -> Start:
        """Where the solver stopped, before the bias was taken out: the best start for a later fit."""
        score, ability = np.full(self.cells.n_models, np.nan), np.full(self.cells.n_annotators, np.nan)
        score[self.small.models] = self.fit.R * ELO_PER_NATURAL * self.typical
        if self.has_abilities:
            ability[self.small.annotators] = self.fit.theta / self.typical
        return Start(score, ability, self.typical)

    def abilities(self) -> Floats:
        """Return θ in the solver's units, the typical ability where the fit has none, shape (n_annotators,)."""
        theta = np.full(self.cells.n_annotators, self.typical)
        theta[self.small.annotators] = self.fit.abilities
        return theta

    def scores(self) -> Floats:
        """Return R in the solver's units, NaN for models that are not identified, shape (n_models,)."""
        R = np.full(self.cells.n_models, np.nan)
        R[self.small.models] = self.fit.scores
        return R

    def natural_scores(self) -> Floats:
        """Return the scores in natural units of the typical annotator, NaN for models without one."""
        R = np.full(self.cells.n_models, np.nan)
        R[self.small.models] = self.unit * self.fit.scores
        return R
