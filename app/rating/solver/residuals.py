from scipy.special import expit

from app.rating.data.arrays import Floats
from app.rating.data.compiled import compiled
from app.rating.data.votes import Cells


@compiled
def moments(x: float, u: float) -> tuple[float, float, float]:
    """Return p = σ(x), p(1 − p) and p(1 − p)(1 − 2p), accurate for large |x| too; u is e^−|x|."""
    near = 1.0 / (1.0 + u)  # σ(|x|)
    far = u * near
    p = near if x >= 0.0 else far
    return p, near * far, near * far * (1.0 - 2.0 * p)


@compiled
def squared_residual(p: float, n: float, s: float, ties: float) -> float:
    """Return Σ (W − p)² over the votes of a cell."""
    won, lost = s - ties / 2.0, n - s - ties / 2.0
    return won * (1.0 - p) ** 2 + ties * (0.5 - p) ** 2 + lost * p**2


def squared_residuals(cells: Cells, x: Floats) -> Floats:
    """Return Σ (W − p)² over the votes of each cell, p = σ(x), x of shape (n_cells,)."""
    p = expit(x)
    squared: Floats = cells.wins_a * (1.0 - p) ** 2 + cells.ties * (0.5 - p) ** 2 + cells.wins_b * p**2
    return squared
