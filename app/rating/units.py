"""Units of scores and abilities."""

import math

import numpy as np

from app.rating.arrays import Floats

ELO_PER_NATURAL = 400.0 / math.log(10.0)
NATURAL_PER_ELO = math.log(10.0) / 400.0


def papers_gauge(ability: Floats) -> Floats:
    """Return abilities of any unit in the am-ELO paper's gauge, Σθ = 1 over the annotators who have one (not NaN)."""
    gauged: Floats = ability / np.nansum(ability)
    return gauged
