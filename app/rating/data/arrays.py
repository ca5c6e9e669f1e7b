"""The array types of the mathematics, by the names that signatures use."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Ints = NDArray[np.int32]
Indices = NDArray[np.int64]
AnyInts = NDArray[np.integer]

OUTCOME_VALUES = np.array([1.0, 0.0, 0.5, 0.5])
"""W by outcome code: model_a, model_b, tie, tie (bothbad)."""
