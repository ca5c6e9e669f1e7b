"""Whether the battles that people voted on are a random part of those that judges saw."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array, diags_array
from scipy.special import fdtrc

from app.rating.arrays import Floats
from app.rating.judges.leaning import score_columns
from app.rating.judges.verdicts import Verdicts
from app.rating.uncertainty.covariance import TINY

ALPHA = 0.001  # probability with which a random part is refused
LEAST = 0.05  # share of the largest variance below which few battles make a direction: its sum is far from normal

Rows = csr_array[Any, tuple[int, int]]


class RandomPart(NamedTuple):
    """What the tests say.

    Attributes
    ----------
    p : probability that a random part differs as much in any of them
    differs : what differs most
    """

    p: float
    differs: str


def check_random_part(verdicts: Verdicts, weight: Floats, style: Floats | None, *, drawn: bool) -> RandomPart:
    """Compare what is known of every judged battle between those that people voted on and all.

    Compared are the models, how even the judges' scores call a battle, for which models judges vote beyond their
    scores, how surprising their verdicts are and how far they agree, and how much the answers differ.

    Parameters
    ----------
    weight : of people's votes on each battle, shape (n_battles,)
    style : by how much the answers of each battle differ, NaN where that is not known, shape (n_battles, n_features)
    drawn : weights are inverse propensities of battles drawn one by one; else every part of as many battles is equally
        likely

    Returns
    -------
    The smallest p of the tests, times their number (Bonferroni).

    Notes
    -----
    A test is of Σ weight · z over the judged battles, z a vector of mean 0 over them. It is held against its variance,
    for an equally likely part that of a permutation of the weights, by Hotelling's T² of as many battles as the weights
    are worth; of z at most half as many directions, those of most variance, none with a 20th of the largest one.
    """
    judged = verdicts.judged
    m, found = weight[judged], list[RandomPart]()
    number = float(m.sum()) ** 2 / max(float((m**2).sum()), TINY)
    spread = float(((m - m.mean()) ** 2).sum()) / max(len(m) - 1, 1)
    for what, vectors in _vectors(verdicts, style):
        Z = csr_array(vectors[np.flatnonzero(judged)])
        mean = np.asarray(Z.mean(axis=0))
        difference = Z.T @ m - m.sum() * mean
        square = m**2 if drawn else np.full(len(m), spread)
        crossed = np.outer(Z.T @ square, mean)
        variance = (Z.T @ diags_array(square) @ Z).toarray() - crossed - crossed.T + square.sum() * np.outer(mean, mean)
        values, directions = np.linalg.eigh(variance)
        most = min(int((values > LEAST * max(float(values.max(initial=0.0)), TINY)).sum()), int(number / 2.0))
        p = 1.0
        if most:
            distance = float(((directions[:, -most:].T @ difference) ** 2 / values[-most:]).sum())
            p = float(fdtrc(most, number - most, distance * (number - most) / (most * (number - 1.0))))
        found.append(RandomPart(p, what))
    least = min(found)
    return RandomPart(min(1.0, least.p * len(found)), least.differs)


def _vectors(verdicts: Verdicts, style: Floats | None) -> Iterator[tuple[str, Rows]]:
    """Yield what is compared, and z of every battle, before it is centred, shape (n_battles, n)."""
    x, size = verdicts.surprise, int(verdicts.second.max(initial=0)) + 1
    signed = score_columns(verdicts.first, verdicts.second, np.ones(len(x)), size)
    i, j = np.triu_indices(x.shape[1])
    yield "the models", abs(signed)
    yield "which judges voted, and how even they find the models", csr_array(np.hstack([verdicts.seen, verdicts.even]))
    yield "how surprising the judges' verdicts are, and how far they agree", csr_array(x[:, i] * x[:, j])
    for one in x.T:
        yield "for which models the judges vote", csr_array(diags_array(one) @ signed)
    if style is not None:
        known = np.isfinite(style)
        measures = np.hstack([known, np.where(known, style, 0.0)])
        yield "how much the answers differ", csr_array(measures / np.maximum(measures.std(axis=0), LEAST))
