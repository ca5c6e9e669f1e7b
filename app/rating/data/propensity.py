"""Weights that undo the choice of pairs."""

import numpy as np

from app.rating.data.arrays import AnyInts, Floats
from app.rating.data.sums import sum_by
from app.rating.errors import VotesError


def inverse_propensity_weights(propensity: Floats, annotator: AnyInts, *, n_annotators: int) -> Floats:
    """Return w_t = (1/π_t)/mean_k(1/π), the mean over the votes of the same annotator k.

    With these weights every annotator's votes have, in expectation, the mix of pairs that uniform choice would have
    had, and each annotator counts as many votes as they cast.

    Parameters
    ----------
    propensity : π_t, the probability with which the pair of vote t was drawn, in (0, 1], shape (n_votes,)
    annotator : indices in [0, n_annotators), shape (n_votes,)

    Returns
    -------
    float array, shape (n_votes,)
        Positive; the mean over each annotator's votes is 1.

    Raises
    ------
    VotesError
        A propensity is missing (NaN) or not in (0, 1]; the message names the first such row.

    References
    ----------
    Horvitz and Thompson, JASA 47 (1952); the scale within annotators: Rabe-Hesketh and Skrondal, Journal of the Royal
    Statistical Society A 169 (2006), §4, method 2 for pseudo-likelihoods with a parameter for each cluster.
    """
    wrong = ~((propensity > 0.0) & (propensity <= 1.0))
    if wrong.any():
        raise VotesError(
            f"propensity must be greater than 0 and at most 1 for every vote; {int(wrong.sum()):,} of {len(wrong):,} "
            f"have none, or another (row {int(np.argmax(wrong))})"
        )
    inverse = 1.0 / propensity
    total, votes = (sum_by(annotator, x, n_annotators) for x in (inverse, np.ones(len(inverse))))
    weights: Floats = inverse * (votes / np.maximum(total, np.finfo(float).tiny))[annotator]
    return weights
