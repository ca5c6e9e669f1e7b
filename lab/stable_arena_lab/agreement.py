"""Measures of agreement between rankings, and of the quality of predictions and detections."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from app.rating.arrays import Floats, Mask

TIE = 0.5


def ranking_agreement(first: Floats, second: Floats) -> float:
    """Return the share of pairs of models that both score lists put in the same order: 1 same, 0 reversed.

    Pairs with a missing score (NaN) do not count; a pair tied in one list only is not in the same order.
    """
    known = np.flatnonzero(np.isfinite(first) & np.isfinite(second))
    i, j = np.triu_indices(len(known), k=1)
    if len(i) == 0:
        return float("nan")
    x, y = first[known], second[known]
    return float(np.mean(np.sign(x[i] - x[j]) == np.sign(y[i] - y[j])))


def consistency(scores: Sequence[Floats]) -> float:
    """Return the mean agreement over all pairs of score lists: the am-ELO paper's Consistency (Figure 5).

    For example, two lists of one ranking and three of its reverse have (1 + 3)/10 = 0.4.
    """
    return float(np.mean([ranking_agreement(x, y) for x, y in combinations(scores, 2)]))


def mean_squared_error(probability: Floats, outcome: Floats) -> float:
    """Return the mean of (P − W)² over all votes, a tie being ½."""
    return float(np.mean((probability - outcome) ** 2))


def vote_losses(probability: Floats, outcome: Floats) -> Floats:
    """Return −ℓ of each vote, a tie being half a vote for each side."""
    losses: Floats = -(outcome * np.log(probability) + (1.0 - outcome) * np.log1p(-probability))
    return losses


def log_loss(probability: Floats, outcome: Floats) -> float:
    """Return −ℓ per vote."""
    return float(np.mean(vote_losses(probability, outcome)))


def area_under_curve(probability: Floats, outcome: Floats) -> float:
    """Return the AUC of P for separating votes for model_a from votes for model_b; ties do not count.

    Equal probabilities count half. NaN where one kind of vote is missing.
    """
    decided = outcome != TIE
    known, won = probability[decided], outcome[decided] == 1.0
    ascending = np.sort(known)
    rank = (np.searchsorted(ascending, known) + np.searchsorted(ascending, known, side="right") + 1) / 2
    n_won, n_lost = int(won.sum()), int((~won).sum())
    if n_won == 0 or n_lost == 0:
        return float("nan")
    return float((rank[won].sum() - n_won * (n_won + 1) / 2) / (n_won * n_lost))


def published_area_under_curve(probability: Floats, outcome: Floats) -> float:
    """Return the AUC that am-ELO's authors compute: over all pairs of votes with different outcomes, ties included.

    The share of these pairs in which the vote with the higher outcome (1, ½ or 0) has the higher probability; equal
    probabilities count as wrong. NaN where all outcomes are equal.
    """
    levels = [np.sort(probability[outcome == level]) for level in (0.0, TIE, 1.0)]
    right = pairs = 0
    for low, high in combinations(levels, 2):
        right += int(np.searchsorted(low, high, side="left").sum())
        pairs += len(low) * len(high)
    return right / pairs if pairs else float("nan")


def f1_score(found: Mask, wanted: Mask) -> float:
    """Return F1 = 2 hits / (found + wanted); NaN where none is wanted and none found."""
    total = int(found.sum()) + int(wanted.sum())
    return 2.0 * int((found & wanted).sum()) / total if total else float("nan")
