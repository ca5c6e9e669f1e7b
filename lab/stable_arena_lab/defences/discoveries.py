"""Control of the false discovery rate over many tests."""

import numpy as np

from app.rating.arrays import Floats, Indices, Mask


def discover_by_evidence(log_ratio: Floats, rate: float) -> Mask:
    """Select tests with a false discovery rate of at most `rate`, under any dependence between them.

    Parameters
    ----------
    log_ratio : log-likelihood ratios (log e-values) of m tests, any shape

    References
    ----------
    Wang and Ramdas, False discovery rate control with e-values, JRSS B 2022 (e-BH).
    """
    flat = log_ratio.ravel()
    order = np.argsort(-flat)
    needed = np.log(len(flat) / (rate * np.arange(1, len(flat) + 1)))
    return _mark(order, np.flatnonzero(flat[order] >= needed), log_ratio.shape)


def discover_by_p(p: Floats, rate: float, *, dependent: bool = False) -> Mask:
    """Select tests with a false discovery rate of at most `rate`.

    Parameters
    ----------
    p : p-values of m tests, any shape
    dependent : True controls the rate under any dependence (Benjamini and Yekutieli 2001), False under independence or
        positive dependence (Benjamini and Hochberg 1995)
    """
    flat = p.ravel()
    size = len(flat)
    factor = float(np.sum(1.0 / np.arange(1, size + 1))) if dependent else 1.0
    order = np.argsort(flat)
    allowed = rate * np.arange(1, size + 1) / (size * factor)
    return _mark(order, np.flatnonzero(flat[order] <= allowed), p.shape)


def _mark(order: Indices, passed: Indices, shape: tuple[int, ...]) -> Mask:
    marked = np.zeros(len(order), dtype=bool)
    if len(passed):
        marked[order[: passed[-1] + 1]] = True
    return marked.reshape(shape)
