"""A leaderboard with style control: the round's votes fitted again, with what their answers differ in."""

from dataclasses import dataclass, replace
from typing import TypedDict

import numpy as np
from scipy.special import ndtri

from app.rating.arrays import Floats, Indices, finite
from app.rating.errors import VotesError
from app.rating.fitted import FitResult
from app.rating.model.features import FeatureFit, Leans, find_shadows, fit_features
from app.rating.plain.features import fit_plain_features
from app.rating.settings import LoopSettings, SettingError
from app.rating.threads import one_blas_thread
from app.rating.uncertainty.covariance import Covariance
from app.rating.uncertainty.freedom import critical_values
from app.rating.units import ELO_PER_NATURAL
from app.rating.verdict.rating import Rating, publish
from app.rating.votes.cells import Compact, compact
from app.rating.votes.features import featured_cells, refuse_constant, single_cells
from app.rating.votes.indexed import IndexedVotes
from app.rating.votes.measures import Features

HISTORY = 20.0  # votes from which an annotator's leans are told


@dataclass(frozen=True)
class StyleEstimates:
    """The crowd's taste and every annotator's own, in Elo points by one standard deviation of a feature.

    An annotator of ability a takes an answer for better by a·γ + b points, of the side for the left one. Without
    intervals errors are NaN, and so is everything of an annotator with fewer than 20 votes.

    Attributes
    ----------
    names : of the features
    gamma, gamma_se, lower, upper : the crowd's, with the interval of the settings' confidence, shape (n_features,)
    spread : estimated standard deviation of b over the crowd, shape (n_features,); NaN by m-ELO
    lean, lean_se : a·γ + b, shape (n_annotators, n_features)
    own, own_se : b
    """

    names: tuple[str, ...]
    gamma: Floats
    gamma_se: Floats
    lower: Floats
    upper: Floats
    spread: Floats
    lean: Floats
    lean_se: Floats
    own: Floats
    own_se: Floats


class StyleRow(TypedDict):
    """What one standard deviation of a feature is worth to the crowd, in Elo points; of the side, being on the left.

    spread: estimated standard deviation, over the annotators, of what they add to it; None by m-ELO.
    """

    feature: str
    points: float
    se: float | None
    lower: float | None
    upper: float | None
    spread: float | None


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
    figures = np.stack([style.gamma, style.gamma_se, style.lower, style.upper, style.spread], axis=-1)
    return [StyleRow(feature=name, **_named(StyleRow, row)) for name, row in zip(style.names, figures, strict=True)]  # type: ignore[typeddict-item]  # its keys


def lean_rows(style: StyleEstimates, names: list[str], confidence: float) -> list[LeanRow]:
    """Return the features of the annotators in the fit."""
    quantile = float(ndtri(0.5 + confidence / 2.0))
    ends = (
        (x, x - quantile * se, x + quantile * se) for x, se in ((style.lean, style.lean_se), (style.own, style.own_se))
    )
    figures = np.stack([end for three in ends for end in three], axis=-1)
    return [
        LeanRow(annotator=names[k], feature=feature, **_named(LeanRow, figures[k, j]))  # type: ignore[typeddict-item]  # its keys
        for k in np.flatnonzero(np.isfinite(style.own[:, 0]))
        for j, feature in enumerate(style.names)
    ]


def _named(row: type, figures: Floats) -> dict[str, float | None]:
    """Return the figures by the last names of a row."""
    names = list(row.__annotations__)[-len(figures) :]
    return dict(zip(names, map(finite, figures.tolist()), strict=True))


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
    """Fit the votes that a round counted with their features, beginning at its result (`fit_features`).

    P(left wins) = σ((ln 10/400) (a_k [(S_i − S_j) + xᵀγ] + xᵀb_k)), x the features. The votes have the weights of the
    round. Its rules are not asked again.

    Parameters
    ----------
    rating : of these votes by am-ELO with a prior, without inverse propensities
    features : of the votes

    Raises
    ------
    SettingError
        The round's method, prior or interval.
    VotesError
        A feature hardly varies within pairs of models, or one annotator cast all votes.
    NotConvergedError
    """
    check_style(rating.settings)
    small, settings = rating.small, rating.settings
    if len(small.annotators) < 2:  # noqa: PLR2004  nothing to compare
        raise VotesError("style control by am-elo needs two annotators: without them use m-elo")
    cells = featured_cells(votes, features, small)
    refuse_constant(cells, features.names)
    begin = None if rating.marginal is None else rating.marginal.start
    found = fit_features(cells, influence_limit=settings.influence_limit, start=begin)
    told, outside = cells.votes_by_annotator() >= HISTORY, _votes_outside(votes, features, small)
    leaning = [(Leans(*(each[told] for each in found.leans)), small.annotators[told])]
    if len(outside.annotators):
        leaning.append((find_shadows(found, outside.cells), outside.annotators))
    style = _estimate_style(found, leaning, features.names, rating.cells.n_annotators, settings)
    return Styled(_publish(rating, found), style)


@one_blas_thread()
def control_style_plainly(rating: Rating, votes: IndexedVotes, features: Features, clusters: Indices) -> Styled:
    """Fit the votes that an m-ELO counted with their features, and the errors of clusters of votes that hang together.

    P(left wins) = σ((ln 10/400) (S_i − S_j + xᵀγ)), x the features; there may be none.

    Parameters
    ----------
    rating : of these votes by m-ELO
    clusters : what each vote belongs to, numbered from 0, shape (n_votes,)

    Raises
    ------
    SettingError
        The interval is neither clustered nor none.
    VotesError
        A feature hardly varies within pairs of models.
    NotConvergedError
    """
    if rating.settings.interval not in ("clustered", "none"):
        raise SettingError("interval", f"must be clustered or none with features, not {rating.settings.interval}")
    small, settings, size = rating.small, rating.settings, len(rating.small.models)
    counted = np.isin(votes.annotator, small.annotators)
    number = int(clusters.max()) + 1
    grouped = replace(votes, annotator=np.where(counted, clusters, number), annotators=[""] * (number + 1))
    cells = featured_cells(grouped, features, replace(small, annotators=np.arange(number)))
    cells = replace(cells, n_annotators=number)
    if features.names:
        refuse_constant(cells, features.names)
    found = fit_plain_features(cells, rating.fit.R)
    errors, freedom = found.covariance[:size, :size], found.freedom[:size]
    covariance = Covariance(
        errors, errors, np.full(len(small.annotators), np.nan), "clustered", number, freedom, found.clusters
    )
    published = publish(
        rating, rating.evidence,
        fit=FitResult(found.R, rating.fit.theta, found.log_likelihood, found.iterations),
        covariance=None if settings.interval == "none" else covariance,
    )  # fmt: skip
    se = np.sqrt(np.diag(found.covariance)[size:])
    half = critical_values(found.freedom[size:], settings.confidence) * se
    if settings.interval == "none":
        se = half = np.full_like(se, np.nan)
    gamma, unknown = ELO_PER_NATURAL * found.gamma, np.full((rating.cells.n_annotators, len(se)), np.nan)
    ends = gamma - ELO_PER_NATURAL * half, gamma + ELO_PER_NATURAL * half
    style = StyleEstimates(features.names, gamma, ELO_PER_NATURAL * se, *ends, np.full_like(se, np.nan), *[unknown] * 4)
    return Styled(published, style)


def _publish(rating: Rating, found: FeatureFit) -> Rating:
    """Return the rating with the scores, abilities and errors of a fit with features."""
    small, fit, settings = rating.small, found.fit, rating.settings
    size, judges = len(small.models), len(small.annotators)
    R = found.scores - found.covariance.centre[:size] @ found.scores
    errors, freedom = found.covariance.scores[:size, :size], found.covariance.freedom[:size]
    covariance = Covariance(
        errors, errors, fit.ability_sd, "clustered", judges, freedom, fit.clusters.judges[:size].astype(np.int64)
    ).with_prompts(None if rating.covariance is None else rating.covariance.by_prompt)
    ability, se = np.full((2, rating.cells.n_annotators), np.nan)
    ability[small.annotators] = fit.ability
    if settings.interval != "none":
        se[small.annotators] = fit.ability_sd
    return publish(
        rating, rating.evidence,
        fit=FitResult(R, fit.ability, fit.log_likelihood, fit.iterations),
        covariance=None if settings.interval == "none" else covariance,
        annotators=replace(rating.annotators, ability=ability, se=se),
    )  # fmt: skip


def _estimate_style(
    found: FeatureFit, leaning: list[tuple[Leans, Indices]], names: tuple[str, ...], n_annotators: int,
    settings: LoopSettings,
) -> StyleEstimates:  # fmt: skip
    """Return what is published of γ and of the leans: those of some annotators at a time, by their indices."""
    size, points = len(names), ELO_PER_NATURAL
    se = np.sqrt(np.diag(found.covariance.scores)[-size:])
    half = critical_values(found.covariance.freedom[-size:], settings.confidence) * se
    lean, lean_se, own, own_se = np.full((4, n_annotators, size), np.nan)
    for leans, annotators in leaning:
        lean[annotators], own[annotators] = points * leans.lean, points * leans.own
        lean_se[annotators], own_se[annotators] = points * leans.lean_sd, points * leans.own_sd
    if settings.interval == "none":
        for errors in (se, half, lean_se, own_se):
            errors[:] = np.nan
    gamma, half = points * found.gamma, points * half
    return StyleEstimates(
        names, gamma, points * se, gamma - half, gamma + half, points * found.spread, lean, lean_se, own, own_se
    )


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
