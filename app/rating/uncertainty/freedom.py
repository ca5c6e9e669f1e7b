"""Multiples of standard errors that are known to few degrees of freedom. Servers load scipy once they need one."""

import numpy as np

from app.rating.arrays import Floats, Indices

NORMAL = 1e9  # degrees of freedom from which t is the normal distribution


def critical_values(freedom: Floats, confidence: float) -> Floats:
    """Return the two-sided quantiles of t; with infinite freedom, of the normal distribution."""
    from scipy.special import ndtri, stdtrit  # noqa: PLC0415  as the module says

    tail = 0.5 + confidence / 2.0
    quantile: Floats = np.where(freedom < NORMAL, stdtrit(np.minimum(freedom, NORMAL), tail), ndtri(tail))
    return quantile


def contrast_freedom(variance: Floats, freedom: Floats, i: Indices, j: Indices) -> Floats:
    """Return the degrees of freedom of R_i − R_j: the mean of 1/freedom, weighted by the variances."""
    variance = np.maximum(variance, np.finfo(float).tiny)
    share = variance / freedom
    inverse = (share[i] + share[j]) / (variance[i] + variance[j])
    found: Floats = 1.0 / np.maximum(inverse, 1.0 / NORMAL)
    return found


def widen(multiple: Floats, freedom: Floats) -> Floats:
    """Return the multiple of t's standard error that is as improbable as this multiple of the normal's.

    Parameters
    ----------
    multiple : standard errors, at least 0; taken as at most 30
    freedom : degrees of freedom, in a shape that broadcasts; from 1e9 the normal distribution's
    """
    from scipy.special import ndtr, stdtrit  # noqa: PLC0415  as the module says

    tail = ndtr(-np.minimum(multiple, 30.0))
    widened: Floats = np.where(freedom < NORMAL, -stdtrit(np.minimum(freedom, NORMAL), tail), multiple)
    return widened


def widenings(multiple: float, freedom: Floats) -> Floats:
    """Return `widen(multiple, freedom)` over the multiple, interpolated to .1 %: quick for many degrees of freedom."""
    grid = np.geomspace(1.0, NORMAL, 400)
    ratio = np.log(widen(np.full(grid.shape, multiple), grid) / multiple)
    wide: Floats = np.exp(np.interp(np.log(freedom), np.log(grid), ratio))
    return wide
