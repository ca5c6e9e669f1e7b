import math

from app.rating.compiled import compiled


@compiled
def moments(x: float) -> tuple[float, float, float, float]:
    """Return p = σ(x), p(1 − p), p(1 − p)(1 − 2p) and log(1 + eˣ), exact for large |x| too."""
    u = math.exp(-abs(x))
    near = 1.0 / (1.0 + u)  # σ(|x|)
    far = u * near
    p = near if x >= 0.0 else far
    return p, near * far, near * far * (1.0 - 2.0 * p), max(x, 0.0) + math.log1p(u)
