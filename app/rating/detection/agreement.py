"""How far an annotator's votes follow what the others see in the same pair: evidence beside the ability."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from app.rating.data.sums import Floats, sum_by
from app.rating.data.votes import Cells

LEAST_SHARE = 1e-6  # of an outcome in the model's expectation: nothing is impossible
BISECTIONS = 60


@dataclass(frozen=True)
class PairAgreement:
    """Agreement of annotators with the consensus on each pair, arrays of shape (n_annotators,); NaN without votes.

    Attributes
    ----------
    agreement : estimated share of votes that follow the pair, in (0, 1); the rest are like draws from all outcomes
    se : its standard error, from the curvature
    expectation_votes : how many votes the scores' expectation counted for beside the others' on the pair
    """

    agreement: Floats
    se: Floats
    expectation_votes: float


def pair_agreement(cells: Cells, R: Floats, *, expectation_votes: float = 1.0) -> PairAgreement:
    """Estimate for every annotator the share c_k of votes that follow the pair: P(W) = c_k π(W) + (1 − c_k) β(W).

    π is what the *other* annotators say of the same pair and what the scores expect of it, by precision: the mean of
    a Dirichlet distribution with the others' votes and `expectation_votes` votes of expectation. β are the shares of
    ties and of wins, half for either side, in all votes: agreement by chance counts for nothing.
    Where many annotators judge a pair, their consensus takes over; where nobody else did, the ranking does. The
    ability knows only the ranking, and a tie as half a win for each; this knows the pair, and ties for what they are.

    Parameters
    ----------
    cells : every vote that bears on a pair, of annotators inside and outside the fit
    R : natural units of the typical annotator; NaN (no score) expects both sides alike, shape (n_models,)
    expectation_votes : greater than 0; at 1 the scores speak where nobody else does, and hardly elsewhere

    Returns
    -------
    PairAgreement
        c_k maximises its likelihood under a prior Beta(2, 2), so that few votes neither acquit nor convict.

    Notes
    -----
    Concave in c_k, solved by bisection for all annotators at once. Ties are expected in proportion to √(p(1 − p)),
    with the factor that gives as many as there are (Davidson 1970).

    References
    ----------
    Hovy et al., Learning whom to trust with MACE, NAACL 2013 (the annotators' model); Dawid and Skene (1979).
    """
    labels = np.column_stack([cells.s - cells.ties / 2.0, cells.n - cells.s - cells.ties / 2.0, cells.ties])
    _, pair = np.unique(cells.model_a.astype(np.int64) * cells.n_models + cells.model_b, return_inverse=True)
    votes = np.column_stack([sum_by(pair, label, int(pair.max(initial=-1)) + 1) for label in labels.T])
    expected = _expect(cells, R, float(cells.ties.sum()))
    others = votes[pair] - labels
    consensus = (expectation_votes * expected + others) / (expectation_votes + others.sum(axis=1))[:, None]
    tie_share = float(cells.ties.sum()) / max(cells.n_votes, 1e-300)
    overall = np.array([0.5 * (1.0 - tie_share), 0.5 * (1.0 - tie_share), tie_share])  # either side, whatever its index
    gain = consensus - overall

    def derivatives(share: Floats) -> tuple[Floats, Floats]:
        """Of the log posterior."""
        ratio = gain / np.maximum(overall + share[cells.annotator, None] * gain, 1e-300)
        slope = sum_by(cells.annotator, (labels * ratio).sum(axis=1), cells.n_annotators)
        bend = sum_by(cells.annotator, (labels * ratio**2).sum(axis=1), cells.n_annotators)
        return slope + 1.0 / share - 1.0 / (1.0 - share), bend + 1.0 / share**2 + 1.0 / (1.0 - share) ** 2

    low, high = np.zeros(cells.n_annotators), np.ones(cells.n_annotators)
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        rising = derivatives(middle)[0] > 0
        low, high = np.where(rising, middle, low), np.where(rising, high, middle)
    share = 0.5 * (low + high)
    absent = cells.votes_by_annotator() == 0
    se = 1.0 / np.sqrt(derivatives(share)[1])
    return PairAgreement(np.where(absent, np.nan, share), np.where(absent, np.nan, se), expectation_votes)


def _expect(cells: Cells, R: Floats, ties: float) -> Floats:
    """Return what the scores expect of each cell's pair: P(first wins), P(second wins), P(tie), shape (n_cells, 3)."""
    p = expit(np.nan_to_num(R[cells.model_a] - R[cells.model_b]))
    even = np.sqrt(p * (1.0 - p))

    def surplus(log_factor: float) -> float:
        tie = math.exp(log_factor) * even
        return float(np.sum(cells.n * tie / (1.0 + tie))) - ties

    low, high = -20.0, 20.0
    factor = 0.0
    if surplus(low) < 0:
        factor = math.exp(brentq(surplus, low, high) if surplus(high) > 0 else high)
    expected = np.maximum(np.column_stack([p, 1.0 - p, factor * even]), LEAST_SHARE)
    shares: Floats = expected / expected.sum(axis=1, keepdims=True)
    return shares
