"""How likely a published leaderboard makes each outcome of a vote: a win for either side, or a tie."""

from dataclasses import dataclass
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from app.models.contestants import AS_RECORDED, Contestants
from app.rating.arrays import Floats, Indices
from app.rating.units import ELO_PER_NATURAL
from app.snapshots.queries import list_placed_models
from app.snapshots.vote_sets import contestants_of

LEAST = 1e-9  # probability: no outcome is impossible
_MOST_LOG_TIES = 12.0  # log of the largest ratio of tie to win between equal models


@dataclass(frozen=True)
class PublishedScores:
    """The models of a snapshot's am-elo leaderboard as arrays, by number.

    Attributes
    ----------
    model_ids : ascending, shape (n_models,)
    score : Elo points, NaN without a score
    votes, ties : counted votes on the model, and ties among them
    names : of the models, by number
    contestants : for which models votes counted
    """

    model_ids: Indices
    score: Floats
    votes: Floats
    ties: Floats
    names: dict[int, str]
    contestants: Contestants = AS_RECORDED

    def gap(self, model_a: Indices, model_b: Indices) -> Floats:
        """Return the first model's score minus the second's, natural units; NaN where one has none, or both are one."""
        gap = (self._of(self.score, model_a) - self._of(self.score, model_b)) / ELO_PER_NATURAL
        return np.where(model_a == model_b, np.nan, gap)

    def tie_share(self, model_a: Indices, model_b: Indices) -> Floats:
        """Return the share of ties in all counted votes on either model; NaN without votes."""
        ties = self._of(self.ties, model_a) + self._of(self.ties, model_b)
        votes = self._of(self.votes, model_a) + self._of(self.votes, model_b)
        with np.errstate(invalid="ignore"):
            share: Floats = ties / votes
        return share

    def _of(self, values: Floats, models: Indices) -> Floats:
        if not len(self.model_ids):
            return np.full(len(models), np.nan)
        place = np.minimum(np.searchsorted(self.model_ids, models), len(self.model_ids) - 1)
        return np.where(self.model_ids[place] == models, values[place], np.nan)


@dataclass(frozen=True)
class Expected:
    """Probabilities of each vote's outcomes, arrays of shape (n_votes,): left wins, right wins, tie."""

    left: Floats
    right: Floats
    tie: Floats

    @property
    def left_of_decided(self) -> Floats:
        """Probability that the left model wins, given that the vote is not a tie."""
        share: Floats = self.left / (self.left + self.right)
        return share

    def of(self, outcome: NDArray[np.integer]) -> Floats:
        """Return the probability of each vote's outcome, by its code."""
        chance: Floats = np.choose(np.minimum(outcome, 2), (self.left, self.right, self.tie))
        return chance


def read_scores(conn: Connection, snapshot_id: UUID, vote_set: str) -> PublishedScores:
    """Read a snapshot's am-elo leaderboard; `vote_set` is the snapshot's."""
    rows = sorted(list_placed_models(conn, snapshot_id, with_hidden=True), key=lambda row: row["model_id"])
    names = ("score", "votes", "ties")
    score, votes, ties = (np.array([row[name] for row in rows], dtype=np.float64) for name in names)
    ids = np.array([row["model_id"] for row in rows], dtype=np.int64)
    models = {row["model_id"]: row["model"] for row in rows}
    return PublishedScores(ids, score, votes, ties, models, contestants_of(conn, vote_set))


def find_tie_weight(gap: Floats, tie_share: Floats) -> float:
    """Return ν, the ratio of tie to win between equal models that gives these votes the expected share of ties.

    `gap`: between each vote's models, natural units.
    `tie_share`: share of ties among all annotators, on each vote's models.
    """
    from scipy.optimize import brentq  # noqa: PLC0415  slow to import, and the service starts without it

    wanted = float(tie_share.mean()) if len(tie_share) else 0.0

    def surplus(log_weight: float) -> float:
        return float(expect(gap, 1.0, float(np.exp(log_weight))).tie.mean()) - wanted

    if wanted <= 0.0 or surplus(-_MOST_LOG_TIES) >= 0.0:
        return 0.0
    if surplus(_MOST_LOG_TIES) <= 0.0:
        return float(np.exp(_MOST_LOG_TIES))
    return float(np.exp(brentq(surplus, -_MOST_LOG_TIES, _MOST_LOG_TIES)))


def expect(gap: Floats, ability: float, tie_weight: float) -> Expected:
    """Return the probabilities of the outcomes for an annotator of this ability.

    The scores give P(left) + P(tie)/2 = σ(ability · gap). Davidson's (1970) model gives the ties:
    P(left) : P(right) : P(tie) = x² : 1 : νx, solved for x.
    """
    p = np.clip(np.exp(-np.logaddexp(0.0, -ability * gap)), LEAST, 1.0 - LEAST)
    bend = tie_weight * (p - 0.5)
    x = (bend + np.sqrt(bend**2 + 4.0 * p * (1.0 - p))) / (2.0 * (1.0 - p))
    whole = x**2 + 1.0 + tie_weight * x
    return Expected(x**2 / whole, 1.0 / whole, tie_weight * x / whole)
