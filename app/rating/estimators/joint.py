from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypedDict

import numpy as np

from app.rating.errors import NoFiniteMaximumError, counted
from app.rating.estimators.estimator import Estimator, as_shape, find_models
from app.rating.estimators.tables import Spec, VotesLike, VoteTable, leaderboard_chart, make_table
from app.rating.settings import MOST_RANKS, Interval, LoopSettings, Method, SettingError, VerdictRule
from app.rating.uncertainty.bounds import predict_matchups
from app.rating.verdict.confidence import measure_confidence
from app.rating.verdict.order import Verdict
from app.rating.verdict.rating import Rating
from app.rating.verdict.round import rate_indexed
from app.rating.verdict.rows import ModelRow, model_rows
from app.rating.verdict.style import StyleEstimates, StyleRow, style_rows


class RankSetRow(TypedDict):
    """One model, and the ranks that it may have; they are missing without intervals, all without a score."""

    model: str
    rank: int | None
    rank_set_best: int | None
    rank_set_worst: int | None


class ConfidenceRow(TypedDict):
    """One model: the probability that it is the best, and that it is among the best k, for one look."""

    model: str
    p_best: float
    p_top_k: float


@dataclass(frozen=True)
class Decided:
    """Whether the votes are enough to know the best k models.

    Attributes
    ----------
    verdict : "decided"; "equal": where that is not certain, the models are within the margin; "not-yet"
    models : table of the models, best first, with their probabilities
    more_votes : the 10 %, 50 % and 90 % points of the forecast of votes until the verdict is final; 0 when it is, ∞
        beyond 50 times the votes so far
    """

    verdict: Verdict
    models: Any
    more_votes: tuple[float, float, float]


class JointEstimator(Estimator):
    """An estimator that maximises the likelihood of all votes together: one round of the loop."""

    interval: Interval
    confidence: float
    inverse_propensity: bool
    result_: Rating
    plain_: Rating | None = None
    style_: StyleEstimates | None = None

    _method: ClassVar[Method]
    _row_type = ModelRow
    _shown = ("rank", "model", "score", "lower", "upper")

    def fit(self, votes: VotesLike | VoteTable) -> Self:
        """Rate the models by the votes.

        Parameters
        ----------
        votes : a pandas, polars or Arrow table, or a mapping from names to arrays; a row for each vote. Columns:
            model_a, model_b: names, text or whole numbers. winner: model_a, model_b, tie, tie (bothbad), or as a number
            1, 0, 0.5. annotator: who voted; `AmElo` needs it. weight, if there: how many votes a row stands for.
            battle_id, if there: an annotator votes on a battle once. prompt, if there: what the models were asked, text
            or a number, missing where unknown; intervals allow for what votes on one prompt have in common.
            of_ranking, if there: how many rows the ranking made of which this is one, else 1. propensity, for
            inverse_propensity: the probability with which the pair was drawn. For the feature length of `AmElo`:
            length_a and length_b

        Returns
        -------
        self

        Raises
        ------
        ValueError
            A parameter is out of range; a column or a value is missing or unknown; no vote is left (`VotesError`).
        RatingError
            The votes have no answer: `NoFiniteMaximumError`, `NotConvergedError`, `NoCommonRankingError`.

        Warns
        -----
        RatingWarning
            For each notice; docs/math/fit.md lists them.
        """
        table = self._read(votes, needs_annotators=self._method == "am-elo")
        settings = self._settings(table)
        try:
            result = self._rate(table, settings)
        except NoFiniteMaximumError as error:
            names = tuple(str(table.votes.annotators[i]) for i in error.annotators)
            raise NoFiniteMaximumError(error.annotators, error.word, names) from error
        self.votes_, self.result_, self._kind = table.votes, result, table.kind
        self._warn(result.diagnostics.warnings)
        return self

    @property
    def style(self) -> Any:
        """What each feature is worth to the crowd, as a table of the caller's kind."""
        return make_table(style_rows(self._styled()), StyleRow, self._kind)

    def _styled(self) -> StyleEstimates:
        self._check_fitted()
        if self.style_ is None:
            raise ValueError("there is no style control: fit with features=(…)")
        return self.style_

    def win_probability(self, a: Any, b: Any, *, return_interval: bool = False) -> Any:
        """Return the probability that a beats b for the mean annotator, a tie being half a win for each.

        Parameters
        ----------
        a, b : names, or arrays of names that broadcast
        return_interval : return (probability, lower, upper)

        Returns
        -------
        float, or an array in the shape of the names; NaN where no vote links the two. Where a model has no score, the
        nearest to ½ within the bounds, which are the interval

        Raises
        ------
        ValueError
            A model is unknown, or the estimator is not fitted.
        """
        self._check_fitted()
        i, j = np.broadcast_arrays(*(find_models(names, self.votes_.models) for names in (a, b)))
        found = predict_matchups(self.result_, i.ravel(), j.ravel())
        figures = tuple(as_shape(x, i.shape) for x in (found.probability, found.lower, found.upper))
        return figures if return_interval else figures[0]

    def rank_sets(self) -> Any:
        """Return sets of ranks that contain the true ranks of all models together with the given confidence.

        `best_rank` and `worst_rank` of the leaderboard are for one model at a time.

        References
        ----------
        Mogstad, Romano, Shaikh and Wilhelm, Inference for Ranks, Review of Economic Studies 2024.
        """
        self._check_fitted()
        return make_table(self._rows(), RankSetRow, self._kind)

    def decided(self, k: int = 1, *, margin: float = VerdictRule.margin) -> Decided:
        """Say whether the votes are enough to know the best k models.

        It may be asked for again after more votes: "decided" is wrong at none of the looks with the `confidence` given.

        Parameters
        ----------
        k : from 1 to the number of models with a score less 1
        margin : Elo points; models this close or closer are practically equal

        Returns
        -------
        Decided
            The verdict, each model's probabilities, and a forecast of how many more votes settle it.

        Raises
        ------
        ValueError
            A parameter is out of range, the estimator is not fitted, or it has no intervals.
        """
        self._check_fitted()
        known = measure_confidence(self.result_, VerdictRule(self.confidence, margin))
        if known is None:
            raise ValueError("the verdict needs intervals, and 2 to 500 models with a score that votes connect")
        if k > MOST_RANKS:
            raise SettingError("k", f"must be at most {MOST_RANKS}")
        found = known.decide(k)
        rows = [
            ConfidenceRow(model=self.votes_.models[i], p_best=within[0], p_top_k=within[k - 1])
            for i, within in zip(known.joint.models.tolist(), known.within.tolist(), strict=True)
        ]
        more = tuple(known.forecasts[k - 1].tolist()) if found.verdict == "not-yet" else (0.0, 0.0, 0.0)
        return Decided(found.verdict, make_table(rows, ConfidenceRow, self._kind), more)

    def plot(self) -> Spec:
        """Return a Vega-Lite chart of the leaderboard: scores with their intervals, best first."""
        self._check_fitted()
        share = f"{self.result_.settings.confidence:.0%}"
        return leaderboard_chart(self._rows(), f"score and its {share} interval, Elo points")

    def _rate(self, table: VoteTable, settings: LoopSettings) -> Rating:
        return rate_indexed(table.votes, table.cells, settings, inverse_propensity=self.inverse_propensity)

    def _settings(self, table: VoteTable) -> LoopSettings:
        """Return the parameters as settings of a round; intervals are by vote where there are no annotators."""
        given = {**self.get_params(), "anchor": self._find_anchor(table.votes.models)}
        for name in ("inverse_propensity", "features"):  # they are of the votes
            given.pop(name, None)
        if not table.annotated and self.interval == "clustered":
            given["interval"] = "sandwich"
        return LoopSettings(method=self._method, **given)

    def _rows(self) -> Sequence[ModelRow]:
        return model_rows(self.result_, self.votes_.models)

    def _summary(self) -> str:
        rating = self.result_
        used, votes = rating.votes_used, rating.annotators.votes.sum()
        flagged = int(np.isin(rating.annotators.standing, ("flagged", "excluded")).sum())
        models = counted(int((rating.models.votes > 0).sum()), "model")
        flags = f", {counted(flagged, 'annotator')} flagged" if flagged else ""
        return f"{used:,.0f} of {votes:,.0f} votes count, {models}{flags}"
