"""Means, their standard errors, and standard deviations over repeats; None where they are undefined."""

import math
from collections.abc import Iterable
from statistics import fmean, stdev

LEAST = 2


def mean_or_none(values: Iterable[float]) -> float | None:
    """Average the values that are numbers."""
    known = [value for value in values if not math.isnan(value)]
    return fmean(known) if known else None


def sd_or_none(values: Iterable[float]) -> float | None:
    """Return the standard deviation (n − 1) of the values that are numbers, None below two of them."""
    known = [value for value in values if not math.isnan(value)]
    return stdev(known) if len(known) >= LEAST else None


def se_or_none(values: Iterable[float]) -> float | None:
    """Return the standard error of the mean of the values that are numbers, None below two of them."""
    known = [value for value in values if not math.isnan(value)]
    sd = sd_or_none(known)
    return None if sd is None else sd / math.sqrt(len(known))
