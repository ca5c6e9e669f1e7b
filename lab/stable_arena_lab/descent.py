"""The am-ELO paper's Algorithm 2 as its authors run it: Adam from a random start, with all votes in every step."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from app.rating.arrays import Floats, Indices, Ints
from app.rating.compiled import compiled
from app.rating.units import NATURAL_PER_ELO
from app.rating.votes.cells import Cells

Variant = Literal["m-elo", "am-elo", "am-elo unnormalised"]
VARIANTS: tuple[Variant, ...] = get_args(Variant)
PAPER_STEPS, PAPER_RATE = 2_000, 0.1
BETA1, BETA2, TINY = 0.9, 0.999, 1e-8  # Adam's constants, as in every implementation
_SCALED, _NORMALISED, _FREE = range(3)


@dataclass(frozen=True)
class Descent:
    """One run of Algorithm 2.

    Attributes
    ----------
    steps : numbers of steps of the snapshots, ascending, shape (n_snapshots,)
    loss : mean negative log-likelihood of a vote, shape (n_snapshots,)
    scores : R in the variant's units, shape (n_snapshots, n_models)
    theta : after the last step, Σθ = 1 for "am-elo", shape (n_annotators,)
    """

    variant: Variant
    steps: Indices
    loss: Floats
    scores: Floats
    theta: Floats


def descend(
    cells: Cells,
    variant: Variant,
    *,
    seed: int,
    steps: int = PAPER_STEPS,
    rate: float = PAPER_RATE,
    looks: int = 40,
) -> Descent:
    """Minimise −ℓ/n_votes by Adam from a random start, for a fixed number of steps.

    Parameters
    ----------
    variant : "m-elo": x = C (R_a − R_b), C = ln 10/400, R in Elo points. "am-elo": x = θ_k/Σθ (R_a − R_b), the
        normalisation being part of the differentiated function. "am-elo unnormalised": x = θ_k (R_a − R_b)
    seed : of the start, R ~ U(−√(6/(n_models + 1)), +) and θ likewise (Xavier's uniform)
    looks : number of snapshots, evenly on a logarithmic scale, with the start and the end

    Notes
    -----
    Convergence is not checked: the published procedure stops after its steps. The pseudo-code of the paper divides θ by
    its sum after each step of gradient ascent; this function does what the published code does.

    References
    ----------
    Liu et al., Am-ELO, ICML 2025, Algorithm 2, Sections 5.2 (rate 0.1, 2,000 steps) and 5.4 (Figure 5).
    """
    generator = np.random.default_rng(seed)
    width_R, width_theta = math.sqrt(6.0 / (cells.n_models + 1)), math.sqrt(6.0 / (cells.n_annotators + 1))
    R = generator.uniform(-width_R, width_R, cells.n_models)
    theta = generator.uniform(-width_theta, width_theta, cells.n_annotators)
    when = np.unique(np.round(np.geomspace(1, steps + 1, looks)).astype(np.int64)) - 1
    loss, scores = np.empty(len(when)), np.empty((len(when), cells.n_models))
    kind = {"m-elo": _SCALED, "am-elo": _NORMALISED, "am-elo unnormalised": _FREE}[variant]
    _run(
        cells.annotator, cells.model_a, cells.model_b, cells.n, cells.s, R, theta, kind, rate, NATURAL_PER_ELO,
        when, loss, scores,
    )  # fmt: skip
    if kind == _NORMALISED:
        theta = theta / theta.sum()
    return Descent(variant, when, loss, scores, theta)


@compiled
def _run(
    annotator: Ints, model_a: Ints, model_b: Ints, n: Floats, s: Floats,
    R: Floats, theta: Floats, kind: int, rate: float, scale: float,
    when: Indices, loss: Floats, scores: Floats,
) -> None:  # fmt: skip
    """Step from (R, θ), in place, until the last of `when`; set `loss` and `scores` at each of them."""
    votes = n.sum()
    gradient_R, gradient_theta = np.zeros_like(R), np.zeros_like(theta)
    mean_R, square_R = np.zeros_like(R), np.zeros_like(R)
    mean_theta, square_theta = np.zeros_like(theta), np.zeros_like(theta)
    look = 0
    for step in range(when[-1] + 1):
        gradient_R[:] = 0.0
        gradient_theta[:] = 0.0
        total = theta.sum() if kind == _NORMALISED else 1.0
        value = 0.0
        for cell in range(len(n)):
            k, a, b = annotator[cell], model_a[cell], model_b[cell]
            difference = R[a] - R[b]
            factor = scale if kind == _SCALED else theta[k] / total
            x = factor * difference
            u = math.exp(-abs(x))
            value += n[cell] * (max(x, 0.0) + math.log1p(u)) - s[cell] * x
            p = 1.0 / (1.0 + u) if x >= 0 else u / (1.0 + u)
            residual = (n[cell] * p - s[cell]) / votes
            gradient_R[a] += residual * factor
            gradient_R[b] -= residual * factor
            gradient_theta[k] += residual * difference
        if step == when[look]:
            loss[look] = value / votes
            scores[look] = R
            look += 1
            if look == len(when):
                break
        if kind == _NORMALISED:
            along = (gradient_theta * theta).sum() / total
            gradient_theta -= along
            gradient_theta /= total
        _adam(R, gradient_R, mean_R, square_R, step + 1, rate)
        if kind != _SCALED:
            _adam(theta, gradient_theta, mean_theta, square_theta, step + 1, rate)


@compiled
def _adam(point: Floats, gradient: Floats, mean: Floats, square: Floats, step: int, rate: float) -> None:
    """Move a point one Adam step against its gradient, in place."""
    for i in range(len(point)):
        mean[i] = BETA1 * mean[i] + (1.0 - BETA1) * gradient[i]
        square[i] = BETA2 * square[i] + (1.0 - BETA2) * gradient[i] * gradient[i]
        centred = mean[i] / (1.0 - BETA1**step)
        spread = square[i] / (1.0 - BETA2**step)
        point[i] -= rate * centred / (math.sqrt(spread) + TINY)
