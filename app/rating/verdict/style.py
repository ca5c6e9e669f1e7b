"""A leaderboard with style control: the round's votes fitted again, with what their answers differ in."""

from dataclasses import dataclass, replace
from typing import TypedDict

import numpy as np
from scipy.special import ndtri

from app.rating.errors import VotesError
from app.rating.fit.scale import Scale, find_scale
from app.rating.fit.style import HISTORY, fit_style, shadow_style
from app.rating.fit.unit import mean_unit
from app.rating.settings import LoopSettings, SettingError
from app.rating.threads import one_blas_thread
from app.rating.uncertainty.covariance import Covariance
from app.rating.uncertainty.style import StyleEstimates, estimate_style, style_covariance
from app.rating.verdict.rating import Rating, publish
from app.rating.verdict.rows import finite
from app.rating.votes.compact import Compact, compact
from app.rating.votes.features import Features, featured_cells, refuse_constant, single_cells
from app.rating.votes.indexed import IndexedVotes

ABILITY_CAP = 1.75  # of the fit with leans, in units of the typical ability


class StyleRow(TypedDict):
    """What one standard deviation of a feature is worth to the crowd, in Elo points; of the side, being on the left.

    spread: estimated standard deviation, over the annotators, of what they add to it.
    """

    feature: str
    points: float
    se: float | None
    lower: float | None
    upper: float | None
    spread: float


class LeanRow(TypedDict):
    """What a feature is worth to an annotator, in Elo points: lean in total, own without the crowd's part."""

    annotator: str
    feature: str
    lean: float
    lower: float | None
    upper: float | None
    own: float
    own_lower: float | None
    own_upper: float | None


def style_rows(style: StyleEstimates) -> list[StyleRow]:
    """Return the features in their order."""
    return [
        StyleRow(
            feature=name,
            points=float(style.gamma[j]),
            se=finite(style.gamma_se[j]),
            lower=finite(style.lower[j]),
            upper=finite(style.upper[j]),
            spread=float(style.spread[j]),
        )
        for j, name in enumerate(style.names)
    ]


def lean_rows(style: StyleEstimates, names: list[str], confidence: float) -> list[LeanRow]:
    """Return the features of the annotators in the fit."""
    quantile = float(ndtri(0.5 + confidence / 2.0))
    half, own_half = quantile * style.lean_se, quantile * style.own_se
    return [
        LeanRow(
            annotator=names[k],
            feature=feature,
            lean=float(style.lean[k, j]),
            lower=finite(style.lean[k, j] - half[k, j]),
            upper=finite(style.lean[k, j] + half[k, j]),
            own=float(style.own[k, j]),
            own_lower=finite(style.own[k, j] - own_half[k, j]),
            own_upper=finite(style.own[k, j] + own_half[k, j]),
        )
        for k in np.flatnonzero(np.isfinite(style.own[:, 0]))
        for j, feature in enumerate(style.names)
    ]


@dataclass(frozen=True)
class Styled:
    """A rating with style control.

    Attributes
    ----------
    rating : scores of answers that differ in no feature; annotators keep their standing
    style : what the features are worth
    """

    rating: Rating
    style: StyleEstimates


@one_blas_thread()
def control_style(rating: Rating, votes: IndexedVotes, features: Features) -> Styled:
    """Fit the votes that a round counted with their features, beginning at its result.

    P(left wins) = σ((ln 10/400) (a_k [(S_i − S_j) + xᵀγ] + xᵀb_k)), x the features. The votes have the weights of the
    round, and the mean ability of the same annotators is 1. Its rules are not asked again.

    Parameters
    ----------
    rating : of these votes by am-ELO with a prior, without inverse propensities
    features : of the votes

    Raises
    ------
    SettingError
        The round's method, prior or interval.
    VotesError
        A feature hardly varies within pairs of models; no vote links some of the models with the others, or one
        annotator cast all votes.
    NotConvergedError, NoCommonRankingError
    """
    check_style(rating.settings)
    small = rating.small
    if len(small.annotators) < 2 or find_scale(small.cells).number > 1:  # noqa: PLR2004  nothing to compare
        raise VotesError("style control needs two annotators, and votes that link all models and annotators")
    weighted, plain = featured_cells(votes, features, small, rating.fit.weights(small.cells))
    refuse_constant(plain, features.names)
    component = rating.components.label[small.models]
    found = fit_style(weighted, plain, rating.fit, component, cap=ABILITY_CAP, bias_correction=True)
    leaning, outside = [(found, small.annotators)], _votes_outside(votes, features, small)
    if len(outside.annotators):
        shadows = shadow_style(found, outside.cells, cap=ABILITY_CAP, bias_correction=True)
        leaning.append((shadows, outside.annotators))
    unit = mean_unit(found.fit, find_scale(weighted), rating.published_unit.weight > 0.0)
    spread = None
    if rating.settings.interval != "none":
        spread = style_covariance(found, component, unit)
    style = estimate_style(
        found, leaning, spread, unit.of_most, features.names, rating.cells.n_annotators, rating.settings.confidence
    )
    size = len(small.models)
    R, theta = found.fit.scores, found.fit.abilities
    fit = replace(found.fit, R=found.fit.R[:size], corrected=(R[:size], theta))
    published = replace(unit, scale=Scale(unit.scale.models[:size], unit.scale.annotators, 1))
    ability, se = np.full((2, rating.cells.n_annotators), np.nan)
    ability[small.annotators] = theta / unit.of_most
    if spread is not None:
        se[small.annotators] = spread.ability_se
    controlled = publish(
        rating, rating.evidence, fit=fit, observed=None, published_unit=published,
        covariance=spread and _of_models(spread, size),
        annotators=replace(rating.annotators, ability=ability, se=se),
    )  # fmt: skip
    return Styled(controlled, style)


def _votes_outside(votes: IndexedVotes, features: Features, small: Compact) -> Compact:
    """Return the votes between the models of a fit by annotators outside it, of those with 20 of them."""
    outside = np.isin(votes.model_a, small.models) & np.isin(votes.model_b, small.models)
    outside &= ~np.isin(votes.annotator, small.annotators)
    outside &= np.bincount(votes.annotator[outside], minlength=len(votes.annotators))[votes.annotator] >= HISTORY
    here = np.isin(np.arange(len(votes.models)), small.models)
    return compact(single_cells(votes, features.values, outside), here)


def check_style(settings: LoopSettings) -> None:
    """Raise SettingError where style control does not have what the settings ask for."""
    if settings.method != "am-elo" or settings.prior_sd is None:
        raise SettingError("features", "need am-elo with a prior")
    if settings.interval not in ("clustered", "none"):
        raise SettingError("interval", f"must be clustered or none with features, not {settings.interval}")


def _of_models(spread: Covariance, size: int) -> Covariance:
    return replace(
        spread, scores=spread.scores[:size, :size], order=spread.order[:size, :size], freedom=spread.freedom[:size],
        judges=spread.judges[:size],
    )  # fmt: skip
