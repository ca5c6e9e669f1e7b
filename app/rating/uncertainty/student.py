"""Multiples of standard errors that are known to few degrees of freedom."""

import numpy as np
from scipy.special import ndtr, stdtrit

from app.rating.arrays import Floats
from app.rating.uncertainty.covariance import NORMAL


def widen(multiple: Floats, freedom: Floats) -> Floats:
    """Return the multiple of t's standard error that is as improbable as this multiple of the normal's.

    Parameters
    ----------
    multiple : standard errors, at least 0; taken as at most 30
    freedom : degrees of freedom, in a shape that broadcasts; from 1e9 the normal distribution's
    """
    tail = ndtr(-np.minimum(multiple, 30.0))
    widened: Floats = np.where(freedom < NORMAL, -stdtrit(np.minimum(freedom, NORMAL), tail), multiple)
    return widened


def widenings(multiple: float, freedom: Floats) -> Floats:
    """Return `widen(multiple, freedom)` over the multiple, interpolated to .1 %: quick for many degrees of freedom."""
    grid = np.geomspace(1.0, NORMAL, 400)
    ratio = np.log(widen(np.full(grid.shape, multiple), grid) / multiple)
    wide: Floats = np.exp(np.interp(np.log(freedom), np.log(grid), ratio))
    return wide
