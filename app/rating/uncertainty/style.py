"""Errors of a fit with features: of the scores, of the crowd's γ, and of each annotator's leans."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from app.rating.arrays import Floats, Indices
from app.rating.fit.own_terms import invert
from app.rating.fit.scale import ELO_PER_NATURAL
from app.rating.fit.style import StyleFit
from app.rating.fit.unit import Unit
from app.rating.threads import map_parts
from app.rating.uncertainty.covariance import Covariance, covariance, critical_values

TINY = 1e-300


@dataclass(frozen=True)
class StyleEstimates:
    """The crowd's taste and every annotator's own, in Elo points by one standard deviation of a feature.

    An annotator of ability a takes an answer for better by a·γ + b points, of the side for the left one. Without
    intervals errors are NaN, and so is everything of an annotator outside the fit with fewer than 20 votes.

    Attributes
    ----------
    names : of the features
    gamma, gamma_se, lower, upper : the crowd's, with the interval of the settings' confidence, shape (n_features,)
    spread : estimated standard deviation of b over the crowd, shape (n_features,)
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


def style_covariance(found: StyleFit, component: Indices, unit: Unit) -> Covariance:
    """Return the clustered covariance of scores and γ, in natural units of the mean annotator.

    Parameters
    ----------
    component : of each model
    unit : published
    """
    label = np.concatenate([component, np.full(len(found.spread), -1)])
    return covariance(
        found.observed.likelihood.cells, found.fit, label, kind="clustered", prior_sd=found.fit.prior_sd,
        abilities=True, observed=found.observed, unit=unit,
    )  # fmt: skip


def estimate_style(
    found: StyleFit, leaning: Sequence[tuple[StyleFit, Indices]], spread: Covariance | None, unit: float,
    names: tuple[str, ...], n_annotators: int, confidence: float,
) -> StyleEstimates:  # fmt: skip
    """Return what is published of γ and of the leans.

    Parameters
    ----------
    leaning : whose leans: fits of annotators, and the index of each of them among n_annotators
    spread : of `style_covariance`; None without intervals
    unit : mean ability, in the solver's units
    """
    size, points = len(names), ELO_PER_NATURAL * unit
    gamma = found.fit.scores[-size:]
    gamma_se, half = np.full((2, size), np.nan)
    if spread is not None:
        effective = _effective_annotators(found)
        gamma_se = np.sqrt(spread.variance[-size:] * effective / np.maximum(effective - 1.0, 1.0))
        half = critical_values(np.maximum(effective - 1.0, 1.0), confidence) * gamma_se
    lean, lean_se, own, own_se = np.full((4, n_annotators, size), np.nan)
    for fit, annotators in leaning:
        lean[annotators], own[annotators] = fit.own[:, :1] * gamma + fit.own[:, 1:], fit.own[:, 1:]
        if spread is not None:
            lean_se[annotators], own_se[annotators] = _lean_errors(fit, spread.scores / unit**2)
    return StyleEstimates(
        names, points * gamma, ELO_PER_NATURAL * gamma_se, points * gamma - ELO_PER_NATURAL * half,
        points * gamma + ELO_PER_NATURAL * half, ELO_PER_NATURAL * found.spread,
        *(ELO_PER_NATURAL * each for each in (lean, lean_se, own, own_se)),
    )  # fmt: skip


def _effective_annotators(found: StyleFit) -> Floats:
    """Return 1/Σ h² of each feature, h the annotators' shares in the information about it, shape (n_features,)."""
    likelihood, theta = found.likelihood, found.own[:, 0]
    x = likelihood.arguments(found.fit.scores, theta)
    c, u = likelihood.cells, np.exp(-np.abs(x))
    weight = c.n * u / (1.0 + u) ** 2
    squares = np.column_stack([
        np.bincount(c.annotator, weight * z**2, c.n_annotators) * theta**2 for z in likelihood.z.T
    ])  # fmt: skip
    effective: Floats = squares.sum(axis=0) ** 2 / np.maximum((squares**2).sum(axis=0), TINY)
    return effective


def _lean_errors(found: StyleFit, errors: Floats) -> tuple[Floats, Floats]:
    """Return the standard errors of a·γ + b, and of b, log-odds, shape (n_annotators, n_features) each.

    The error of the annotator's own votes, by the inverse information of (θ, b), and that of scores and γ: these move
    (θ, b) by −H⁻¹K, K their cross block.

    Parameters
    ----------
    errors : covariance of scores and γ in the solver's units
    """
    likelihood, R, own, V = found.likelihood, found.fit.scores, found.own, invert(found.information)
    c, theta, size = likelihood.cells, own[:, 0], own.shape[1] - 1
    gamma, prior = R[c.n_models :], found.fit.prior
    dispersion = 1.0 if prior is None else prior.dispersion
    d, x = likelihood.distances(R), likelihood.arguments(R, theta)
    p = 1.0 / (1.0 + np.exp(-x))
    w = c.n * p * (1.0 - p)
    K = np.column_stack(
        [w * theta[c.annotator] * d - (c.s - c.n * p), (theta[c.annotator] * w)[:, None] * likelihood.z]
    )
    one, variances = np.ones(len(own)), np.empty((2, len(own), size))
    entries, rough = [np.ascontiguousarray(entry) for entry in K.T], errors.astype(np.float32)

    def fill(part: tuple[int, int]) -> None:
        for chunk in zip(*(likelihood.rows.chunks(part, entry, one) for entry in entries), strict=True):
            (first, last), here = chunk[0][0], slice(*chunk[0][0])
            rows = np.stack([each for _, each in chunk], axis=1, dtype=np.float32)
            moved = (rows.reshape(-1, len(R)) @ rough).reshape(rows.shape)
            both = moved @ rows.transpose(0, 2, 1)
            for j in range(size):
                feature = c.n_models + j
                for place, (of_theta, direct) in enumerate(((gamma[j], theta[here]), (0.0, np.zeros(last - first)))):
                    along = np.zeros(size + 1)
                    along[0], along[1 + j] = of_theta, 1.0
                    answer = V[here] @ along
                    variance = dispersion * (answer @ along) + np.einsum("ki,kij,kj->k", answer, both, answer)
                    variance -= 2.0 * direct * np.einsum("ki,ki->k", answer, moved[:, :, feature])
                    variances[place, here, j] = variance + direct**2 * errors[feature, feature]

    map_parts(fill, likelihood.rows.parts)
    lean_se, own_se = np.sqrt(np.maximum(variances, 0.0))
    return lean_se, own_se
