from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Self, TypedDict

import numpy as np
from scipy.special import expit

from app.rating.arrays import Floats, Indices, Mask
from app.rating.errors import RatingNotice, VotesError, counted
from app.rating.estimators.estimator import Estimator, as_shape, find_models
from app.rating.estimators.tables import Spec, VotesLike, VoteTable, leaderboard_chart
from app.rating.plain.elo import fit_elo
from app.rating.settings import SettingError, check_numbers
from app.rating.uncertainty.ranks import rank_by
from app.rating.units import NATURAL_PER_ELO
from app.rating.verdict.rows import FIGURES, AnnotatorRow, count
from app.rating.votes.graph import find_components


class EloRow(TypedDict):
    """One model, in Elo points: score is the mean over shuffles, recorded that in the order of times, or rows."""

    model: str
    score: float
    sem: float
    sd: float
    recorded: float
    votes: int | float
    wins: int | float
    ties: int | float
    losses: int | float
    rank: int


@dataclass(frozen=True)
class EloLeaderboard:
    """Elo's rows, best first, and how many votes they come from."""

    models: list[EloRow]
    annotators: list[AnnotatorRow]
    votes_used: int
    components: int
    k: float
    warnings: list[RatingNotice]


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
        standard error of the mean, recorded the score in the order of the column timestamp, or else of the rows
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
    _in_time = True

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
        self.votes_, self.result_, self._kind = table.votes, self._rate(table), table.kind
        self._warn(self.result_.warnings)
        return self

    def _rate(self, table: VoteTable) -> EloLeaderboard:
        """Rate by the votes of annotators with more than `min_votes` votes."""
        votes, cells = table.votes.repeated(), table.cells
        by_annotator = votes.rankings_by_annotator()
        by_annotator = cells.votes_by_annotator() if by_annotator is None else by_annotator
        enough = by_annotator > self.min_votes
        keep = enough[votes.annotator]
        if not keep.any():
            raise VotesError(f"no vote is left: no annotator has more than {self.min_votes} votes", "no-votes")
        used, position = np.unique(np.concatenate([votes.model_a[keep], votes.model_b[keep]]), return_inverse=True)
        a, b = np.split(position, 2)
        outcome, n = votes.outcome[keep], len(used)
        result = fit_elo(
            a, b, outcome, n_models=n, k=self.k, initial=self.base, shuffles=self.shuffles, seed=self.random_state
        )
        shift, rank = self._shift(result.score, used, votes.models), rank_by(result.score)
        counts = [
            np.bincount(a, outcome == value, n) + np.bincount(b, outcome == 1 - value, n) for value in (1.0, 0.5, 0.0)
        ]
        rows = [
            EloRow(
                model=votes.models[model],
                score=float(result.score[i] + shift),
                sem=float(result.sem[i]),
                sd=float(result.sd[i]),
                recorded=float(result.recorded[i] + shift),
                votes=count(sum(each[i] for each in counts)),
                wins=count(counts[0][i]),
                ties=count(counts[1][i]),
                losses=count(counts[2][i]),
                rank=int(rank[i]),
            )
            for i, model in enumerate(used)
        ]
        components = find_components(cells.where(enough[cells.annotator])).number
        apart = f"no vote links {components} groups of models: ranks cannot be compared across groups"
        return EloLeaderboard(
            models=sorted(rows, key=lambda row: (row["rank"], row["model"])),
            annotators=_voters(votes.annotators, by_annotator, enough),
            votes_used=int(keep.sum()),
            components=components,
            k=result.k,
            warnings=[RatingNotice("disconnected-graph", apart)] if components > 1 else [],
        )

    def _shift(self, score: Floats, used: Indices, models: Sequence[Any]) -> float:
        """Return what the anchor adds to every score."""
        anchor = self._find_anchor(models)
        if anchor is None:
            return 0.0
        if anchor[0] not in used:
            raise VotesError("the anchor model has no counted votes")
        return float(anchor[1] - score[np.searchsorted(used, anchor[0])])

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


def _voters(names: Sequence[Any], votes: Floats, counted: Mask) -> list[AnnotatorRow]:
    """Return the annotators, most votes first; Elo estimates no abilities, it only counts votes."""
    rows = [
        AnnotatorRow(
            annotator=name,
            **dict.fromkeys(FIGURES),  # type: ignore[typeddict-item]  # keys of the row
            votes=count(votes[i]),
            standing="active" if counted[i] else "pending",
            reason=None,
        )
        for i, name in enumerate(names)
    ]
    return sorted(rows, key=lambda row: (-row["votes"], row["annotator"]))
