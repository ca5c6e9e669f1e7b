"""Errors of a fit with features: of the scores, of the crowd's γ, and of each annotator's leans."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from app.rating.arrays import Floats, Indices
from app.rating.compiled import compiled
from app.rating.fit.kernels import pair_of
from app.rating.fit.own_terms import invert
from app.rating.fit.rows import CHUNK
from app.rating.fit.scale import ELO_PER_NATURAL
from app.rating.fit.style import StyleFit
from app.rating.fit.unit import Unit
from app.rating.threads import map_parts
from app.rating.uncertainty.covariance import Covariance, covariance, critical_values
from app.rating.votes.cells import CellArrays

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
    known = np.einsum("kii->ki", found.information)[:, 1:] - found.likelihood.lean_precision
    squares = found.own[:, :1] ** 2 * known
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
    c, size, d = likelihood.cells, own.shape[1] - 1, likelihood.distances(R)
    gamma, of_gamma, rough = R[c.n_models :], np.diag(errors)[c.n_models :], errors.astype(np.float32)
    dispersion = 1.0 if found.fit.prior is None else found.fit.prior.dispersion
    variances = np.empty((2, len(own), size))

    def fill(part: tuple[int, int]) -> None:
        for first in range(*part, CHUNK):
            here = slice(first, min(first + CHUNK, part[1]))
            theta, of_b = own[here, :1], V[here, 1:]
            rows = np.zeros((len(theta), size + 1, len(R)), dtype=np.float32)
            fill_cross_blocks(first, c.arrays, d, likelihood.z, own, rows)
            moved = (rows.reshape(-1, len(R)) @ rough).reshape(rows.shape)
            both, lean = moved @ rows.transpose(0, 2, 1), of_b + gamma[:, None] * V[here, :1]
            for place, answer in enumerate((lean, of_b)):
                variance = dispersion * np.einsum("kjj->kj", answer[:, :, 1:])
                variances[place, here] = variance + np.einsum("kji,kji->kj", answer @ both, answer)
            along = np.einsum("kji,kij->kj", lean, moved[:, :, c.n_models :])
            variances[0, here] += dispersion * gamma * lean[:, :, 0] + theta**2 * of_gamma - 2.0 * theta * along

    map_parts(fill, likelihood.rows.parts)
    lean_se, own_se = np.sqrt(np.maximum(variances, 0.0))
    return lean_se, own_se


@compiled
def fill_cross_blocks(first: int, cells: CellArrays, d: Floats, z: Floats, own: Floats, blocks: Floats) -> None:
    """Add to `blocks` (n, 1 + n_features, n_models + n_features), 0 before, K of the n annotators from `first` on."""
    size, n_models, entry = z.shape[1], blocks.shape[2] - z.shape[1], np.empty(own.shape[1])
    for place in range(len(blocks)):
        k, block = first + place, blocks[place]
        for cell in range(cells.starts[k], cells.starts[k + 1]):
            x = own[k, 0] * d[cell]
            for i in range(size):
                x += own[k, 1 + i] * z[cell, i]
            p = 1.0 / (1.0 + math.exp(-x))
            weight = own[k, 0] * cells.n[cell] * p * (1.0 - p)
            entry[0] = weight * d[cell] - (cells.s[cell] - cells.n[cell] * p)
            for i in range(size):
                entry[1 + i] = weight * z[cell, i]
            a, b = pair_of(cells.model_a, cells.model_b, cell)
            for j in range(size + 1):
                block[j, a] += entry[j]
                block[j, b] -= entry[j]
                for i in range(size):
                    block[j, n_models + i] += entry[j] * z[cell, i]
