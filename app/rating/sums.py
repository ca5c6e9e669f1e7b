import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def sum_by(index: NDArray[np.integer], weight: Floats, size: int) -> Floats:
    """Sum the weights of equal indices, shape (size,): what one partition of the cells adds to a total."""
    return np.bincount(index, weight, size).astype(np.float64, copy=False)
