"""Where the search for the scores begins: Bradley-Terry scores with a weak prior, and the dispersion of the votes."""

import math

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from app.rating.arrays import Floats, sum_by
from app.rating.compiled import compiled
from app.rating.exchange import add_up, total
from app.rating.threads import map_parts
from app.rating.votes.cells import CellArrays, Cells, pair_cells

PRIOR_SD = 1000.0 * math.log(10.0) / 400.0  # of a score around its component's mean, natural units: 1,000 Elo points
PRECISION = PRIOR_SD**-2
LONGEST, CONVERGED, MOST_ITERATIONS = 4.0, 1e-8, 60
LEAST_DISPERSION = 0.1


def fit_bradley_terry(pairs: Cells, known: Floats | None = None, begin: Floats | None = None) -> Floats:
    """Maximise Σ s log σ(R_a − R_b) + (n − s) log σ(R_b − R_a) − Σ R²/2σ² by Newton's method.

    Parameters
    ----------
    pairs : the pair table
    known : scores that stay as they are, NaN for those to be found, shape (n_models,); default none
    begin : scores where to begin, shape (n_models,); default 0. The result is the same, in fewer steps

    Returns
    -------
    R, natural units, shape (n_models,); finite for every model: the prior has a deviation of 1,000 Elo points
    """
    i, j, n, s, size = pairs.model_a, pairs.model_b, pairs.n, pairs.s, pairs.n_models
    R, free = np.zeros(size) if begin is None else begin, np.arange(size)
    if known is not None:
        R, free = np.nan_to_num(known), np.flatnonzero(np.isnan(known))
    for _ in range(MOST_ITERATIONS):
        p = 1.0 / (1.0 + np.exp(-np.clip(R[i] - R[j], -30.0, 30.0)))
        left, v = s - n * p, n * p * (1.0 - p)
        gradient = sum_by(i, left, size) - sum_by(j, left, size) - PRECISION * R
        hessian = np.diag(sum_by(i, v, size) + sum_by(j, v, size) + PRECISION)
        hessian[i, j] -= v
        hessian[j, i] -= v
        step = np.zeros(size)
        step[free] = cho_solve(cho_factor(hessian[np.ix_(free, free)]), gradient[free])
        longest = float(np.abs(step).max(initial=0.0))
        R = R + step * min(1.0, LONGEST / max(longest, LONGEST))
        if longest < CONVERGED:
            break
    return R


def disperse(pairs: Cells, R: Floats) -> float:
    """Return the variance of a vote relative to p (1 − p): 1 − ¼ ties/Σ n p (1 − p), as a tie is half a win."""
    p = 1.0 / (1.0 + np.exp(-np.clip(R[pairs.model_a] - R[pairs.model_b], -30.0, 30.0)))
    binomial = float((pairs.n * p * (1.0 - p)).sum())
    return min(max(1.0 - 0.25 * float(pairs.ties.sum()) / max(binomial, 1e-300), LEAST_DISPERSION), 1.0)


def balance(cells: Cells) -> Cells:
    """Return the pair table in which a vote counts 1 / its annotator's number of votes on either of its models."""
    size = cells.n_models

    def add(part: tuple[int, int]) -> Floats:
        sums = np.zeros((2, size * size))
        add_balanced(*part, cells.arrays, size, sums)
        return sums

    n, s = total(add_up(map_parts(add, cells.split_annotators())))
    pair = np.flatnonzero(n)
    return pair_cells(pair, n[pair], s[pair], np.zeros(len(pair)), size)


@compiled
def add_balanced(first: int, last: int, cells: CellArrays, size: int, sums: Floats) -> None:
    """Add balanced votes of annotators first … last−1, n and s, to the table of pairs, model_a · size + model_b."""
    own, starts = np.zeros(size), cells.starts
    for k in range(first, last):
        for c in range(starts[k], starts[k + 1]):
            own[cells.model_a[c]] += cells.n[c]
            own[cells.model_b[c]] += cells.n[c]
        for c in range(starts[k], starts[k + 1]):
            a, b = np.int64(cells.model_a[c]), np.int64(cells.model_b[c])
            most = max(own[a], own[b])
            sums[0, a * size + b] += cells.n[c] / most
            sums[1, a * size + b] += cells.s[c] / most
        for c in range(starts[k], starts[k + 1]):
            own[cells.model_a[c]] = own[cells.model_b[c]] = 0.0
