from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Self

import numpy as np
from scipy.special import expit

from app.rating.errors import counted
from app.rating.estimators.estimator import Estimator, as_shape, find_models
from app.rating.estimators.tables import Spec, VotesLike, VoteTable, leaderboard_chart
from app.rating.settings import SettingError, check_numbers
from app.rating.units import NATURAL_PER_ELO
from app.rating.verdict.rows import EloRow, rate_by_order


@dataclass(kw_only=True, repr=False, eq=False)
class Elo(Estimator):
    """Elo, updated vote after vote: S_a ← S_a + k (W − P); the mean over random orders of the votes.

    Parameters
    ----------
    k : the most that one vote moves a score, Elo points
    base : where every model starts, Elo points
    shuffles : number of random orders, at least 2
    random_state : seed of the orders
    min_votes : only annotators with more votes than this count; above 0 the votes need the column annotator
    anchor : (model, Elo points): shifts the scores so that this model has these points

    Attributes
    ----------
    leaderboard : table of the models, best first: score is the mean over the orders, sd what one order changes, sem the
        standard error of the mean, recorded the score in the order of the rows
    votes_ : the votes as they were read, with the names by index
    result_ : the leaderboard as rows, and what it comes from

    References
    ----------
    Liu et al., Am-ELO, ICML 2025, Algorithm 1; Boubdir et al., Elo Uncovered, 2023.
    """

    k: float = 4.0
    base: float = 1000.0
    shuffles: int = 1000
    random_state: int = 0
    min_votes: float = 0
    anchor: tuple[Any, float] | None = None

    _row_type = EloRow
    _shown = ("rank", "model", "score", "sd")

    def fit(self, votes: VotesLike | VoteTable) -> Self:
        """Rate the models by the votes.

        Parameters
        ----------
        votes : as for `AmElo`; the column annotator is needed for min_votes alone, and weights are whole numbers

        Returns
        -------
        self

        Raises
        ------
        ValueError
            A parameter is out of range; a column or a value is missing or unknown; no vote is left (`VotesError`).

        Warns
        -----
        RatingWarning
            The votes do not link all models.
        """
        check_numbers(self, ["k", "base"])
        shuffles: object = self.shuffles
        if not isinstance(shuffles, Integral):
            raise SettingError("shuffles", f"must be a whole number, is {shuffles!r}")
        table = self._read(votes)
        result = rate_by_order(
            table.votes, table.cells,
            min_votes=self.min_votes, base=self.base, anchor=self._find_anchor(table.votes.models),
            shuffles=self.shuffles, seed=self.random_state, k=self.k,
        )  # fmt: skip
        self.votes_, self.result_, self._kind = table.votes, result, table.kind
        self._warn(result.warnings)
        return self

    def win_probability(self, a: Any, b: Any) -> Any:
        """Return the probability that a beats b, a tie being half a win for each.

        Parameters
        ----------
        a, b : names, or arrays of names that broadcast

        Raises
        ------
        ValueError
            No vote on a model counts, or the estimator is not fitted.
        """
        self._check_fitted()
        models = [row["model"] for row in self._rows()]
        score = np.array([row["score"] for row in self._rows()])
        difference = np.asarray(score[find_models(a, models)] - score[find_models(b, models)])
        return as_shape(expit(difference * NATURAL_PER_ELO), difference.shape)

    def plot(self) -> Spec:
        """Return a Vega-Lite chart of the leaderboard: scores with their spread over the orders, best first."""
        self._check_fitted()
        rows = [
            {**row, "lower": row["score"] - row["sd"], "upper": row["score"] + row["sd"], "component": 0}
            for row in self._rows()
        ]
        return leaderboard_chart(rows, "mean score and standard deviation over the orders, Elo points")

    def _rows(self) -> Sequence[EloRow]:
        return self.result_.models

    def _summary(self) -> str:
        models = counted(len(self.result_.models), "model")
        votes = len(self.votes_.outcome) if self.votes_.weight is None else self.votes_.weight.sum()
        return f"{self.result_.votes_used:,} of {votes:,.0f} votes count, {models}"
