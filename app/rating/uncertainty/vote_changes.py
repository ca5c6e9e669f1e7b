"""Small changes of the votes: one dropped, turned round, or added; and what one of them does to the score equations."""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit

from app.rating.arrays import Floats, Indices
from app.rating.fitted import FitResult
from app.rating.votes.cells import Cells

VERDICTS = np.array([1.0, 0.5, 0.0])  # W of each kind of vote: for model_a, a tie, for model_b


@dataclass(frozen=True)
class VoteChange:
    """One way of changing a vote.

    The score equations of a vote have the residual W − p, p the probability of a win for model_a. The change takes
    `outcome`·W + `expected`·p + `constant` from it.

    Attributes
    ----------
    outcome, expected, constant : of the sum above
    number : how many votes the change adds
    anew : whether W is a new vote's verdict, for model_a or for model_b, and not that of a vote on record. Then there
        are as many such changes as the annotator cast votes on the pair
    """

    outcome: float
    expected: float
    constant: float
    number: float
    anew: bool = False

    def possible(self, cells: Cells) -> Floats:
        """Return how many votes of each kind can be changed so, shape (n_cells, 3)."""
        counts = [cells.n, np.zeros(len(cells.n)), cells.n] if self.anew else [cells.wins_a, cells.ties, cells.wins_b]
        return np.stack(counts, axis=1)

    def apply(self, cells: Cells, cell: Indices, kind: Indices) -> Cells:
        """Return the votes after one change for each entry of `cell`, of a vote of the kind in `kind`."""
        changes = np.zeros((len(cells.n), 3))
        np.add.at(changes, (cell, kind), 1.0)
        n = cells.n + self.number * changes.sum(axis=1)
        s = cells.s - changes @ (self.outcome * VERDICTS + self.constant)  # s is the part of Σ (W − p) without p
        return replace(cells, n=n, s=s, ties=cells.ties + self.number * changes[:, 1]).where(n > 0)


DROPPED = VoteChange(1.0, -1.0, 0.0, -1.0)
FLIPPED = VoteChange(2.0, 0.0, -1.0, 0.0)  # a tie stays one
ADDED = VoteChange(-1.0, 1.0, 0.0, 1.0, anew=True)


@dataclass(frozen=True)
class VoteGroups:
    """Changes of votes, equal ones of a cell as one group: arrays of shape (n_groups,).

    Attributes
    ----------
    cell : index of the cell
    kind : of the vote: 0 for model_a, 1 a tie, 2 for model_b
    size : number of such changes in the cell, > 0
    residual : what one takes from W − p
    """

    cell: Indices
    kind: Indices
    size: Floats
    residual: Floats


def group_changes(cells: Cells, fit: FitResult, change: VoteChange) -> VoteGroups:
    """Return every change of this way that the votes allow."""
    size = change.possible(cells)
    cell, kind = np.nonzero(size > 0)
    p = expit(fit.theta[cells.annotator] * (fit.R[cells.model_a] - fit.R[cells.model_b]))
    residual = change.outcome * VERDICTS[kind] + change.expected * p[cell] + change.constant
    return VoteGroups(cell, kind, size[cell, kind], residual)
