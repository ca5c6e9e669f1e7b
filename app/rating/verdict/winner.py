"""The best of several variants: its score looks better than it is, because it was chosen for its score."""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from app.rating.arrays import Floats
from app.rating.verdict.confidence import square_root
from app.rating.verdict.forecasts import SEED

DRAWS = 20_000
SHARE = 0.1  # of the error probability that goes to the simultaneous interval


@dataclass(frozen=True)
class Winner:
    """The variant with the highest score, and its score as it is once the choice is allowed for.

    Attributes
    ----------
    index : of the best variant
    score : median-unbiased given that this variant is the best, to within β/2: the truth is as often below as above it
    lower, upper : ends of the hybrid interval
    """

    index: int
    score: float
    lower: float
    upper: float


def adjust_winner(score: Floats, covariance: Floats, *, confidence: float = 0.95) -> Winner:
    """Estimate the true score of the best of n variants, given that it came out best.

    Parameters
    ----------
    score : estimated scores, shape (n,)
    covariance : of their errors, in the square of the same unit, shape (n, n)
    confidence : of the interval

    Returns
    -------
    Winner
        A variant far ahead of the others keeps its score and its interval. One just ahead gets a lower score and an
        interval that reaches further down.

    Notes
    -----
    With Y the best score, v its variance and c_j = Cov(S_j, Y)/v, the part Z_j = S_j − c_j Y is independent of Y, and
    variant j is behind where Y ≥ Z_j / (1 − c_j). So given Z, Y is normal, cut off below at L = max_j Z_j/(1 − c_j),
    and above by the c_j that exceed 1. Quantile-unbiased ends solve P(Y ≥ y | cut off, μ) = p for μ. They may be far
    down where Y is close to L. The hybrid keeps them within a simultaneous interval of level β = α/10, whose width is
    the quantile of max_j |e_j|/√v_j by simulation, and spends (α − β)/(1 − β) on the rest: given μ, a Y outside the
    simultaneous interval of μ is cut off too.

    References
    ----------
    Andrews, Kitagawa and McCloskey, Inference on Winners, Quarterly Journal of Economics 2024, §§3 to 5; Singh et al.,
    The Leaderboard Illusion, 2025, §4, on the best of many private variants.
    """
    best = int(np.argmax(score))
    error = float(np.sqrt(covariance[best, best]))
    if error == 0.0:
        return Winner(best, float(score[best]), float(score[best]), float(score[best]))
    low, high = _cut(score, covariance, best)
    beta = SHARE * (1.0 - confidence)
    around = simultaneous_multiple(covariance, beta) * error
    left = (1.0 - confidence - beta) / (1.0 - beta)
    y = float(score[best])
    lower, middle, upper = (_solve(y, error, low, high, around, share) for share in (left / 2.0, 0.5, 1.0 - left / 2.0))
    return Winner(best, middle, lower, upper)


def simultaneous_multiple(covariance: Floats, alpha: float) -> float:
    """Return the 1 − α quantile of max_j |e_j|/√v_j for errors e ~ N(0, covariance), by simulation."""
    root = square_root(covariance)
    errors = np.random.default_rng(SEED).standard_normal((DRAWS, len(root))) @ root.T
    size = np.sqrt(np.maximum(np.diag(covariance), np.finfo(float).tiny))
    return float(np.quantile(np.abs(errors / size).max(axis=1), 1.0 - alpha))


def _cut(score: Floats, covariance: Floats, best: int) -> tuple[float, float]:
    """Return between which values the best score can lie, given what the other scores say apart from it."""
    slope = covariance[:, best] / covariance[best, best]
    rest = score - slope * score[best]
    others = np.arange(len(score)) != best
    below, above = others & (slope < 1.0), others & (slope > 1.0)
    low = np.max(rest[below] / (1.0 - slope[below]), initial=-np.inf)
    high = np.min(rest[above] / (1.0 - slope[above]), initial=np.inf)
    return float(low), float(high)


def _solve(y: float, error: float, low: float, high: float, around: float, share: float) -> float:
    """Return the μ under which a score of y or more has probability `share`."""
    from scipy.optimize import brentq  # noqa: PLC0415  slow to import, and the service starts without it

    def beyond(mu: float) -> float:
        bottom, top = max(low, mu - around), min(high, mu + around)
        return _upper_share((y - mu) / error, (bottom - mu) / error, (top - mu) / error) - share

    return float(brentq(beyond, y - around, y + around, xtol=1e-9 * error))  # 0 − share and 1 − share at the ends


def _upper_share(y: float, low: float, high: float) -> float:
    """Return P(Z ≥ y | low ≤ Z ≤ high) for standard normal Z, none of them far in the tails."""
    if not low < y < high:
        return float(y <= low)
    return float((ndtr(-y) - ndtr(-high)) / (ndtr(-low) - ndtr(-high)))
