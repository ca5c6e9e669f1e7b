import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from app.rating.estimators.joint import JointEstimator
from app.rating.estimators.tables import VoteTable, make_table
from app.rating.settings import FlagRule, Interval, LoopSettings, Method, SettingError
from app.rating.verdict.rating import Rating
from app.rating.verdict.rows import AnnotatorRow, annotator_rows
from app.rating.verdict.style import (
    LeanRow,
    check_style,
    control_style,
    control_style_plainly,
    lean_rows,
)
from app.rating.votes.measures import Features

SIDES = ("left", "right")


class FlagRow(AnnotatorRow):
    """One flagged annotator: with the logarithm (base 10) of the test's ratio, and the model or side that it found."""

    strength: float | None
    about: str | None


@dataclass(kw_only=True, repr=False, eq=False)
class AmElo(JointEstimator):
    """am-ELO: scores of models and abilities of annotators together, P(a beats b) = σ(ability · (S_a − S_b) ln 10/400).

    Parameters
    ----------
    {settings}
    anchor, inverse_propensity : as for `BradleyTerry`
    features : what answers differ in beside their models, such as ("side", "length"). The leaderboard is then of
        answers that differ in none: P(a beats b) = σ((ln 10/400) (ability · (S_a − S_b + xᵀγ) + xᵀb)), with the crowd's
        taste γ and each annotator's own, b. `side` is 1 for the left answer; length is read from the columns length_a
        and length_b, counts as (a − b)/(a + b), and divided by its root mean square

    Attributes
    ----------
    leaderboard : table of the models, best first
    annotators : table of the annotators, the most able first
    style : table of the features: γ in Elo points, and the spread of b over the annotators
    leans : table of annotators and features: what a feature moves the annotator by, a·γ + b, and b alone
    plain_ : the round without features
    votes_ : the votes as they were read, with the names by index
    result_ : the round, by index: settings, estimates, diagnostics

    References
    ----------
    Liu et al., Am-ELO, ICML 2025, Algorithms 2 and 3.
    """

    prior_sd: float | Literal["estimated"] | None = LoopSettings.prior_sd
    influence_limit: float | None = LoopSettings.influence_limit
    min_votes: float = LoopSettings.min_votes
    min_ability: float = LoopSettings.min_ability
    min_probability: float = LoopSettings.min_probability
    flag_rule: FlagRule = LoopSettings.flag_rule
    evidence_ratio: float = LoopSettings.evidence_ratio
    exclude: bool = LoopSettings.exclude
    interval: Interval = LoopSettings.interval
    confidence: float = LoopSettings.confidence
    base: float = LoopSettings.base
    anchor: tuple[Any, float] | None = None
    inverse_propensity: bool = False
    features: Sequence[str] = ()

    _method: ClassVar[Method] = "am-elo"

    @property
    def leans(self) -> Any:
        """What each feature is worth to each annotator, as a table of the caller's kind."""
        rows = lean_rows(self._styled(), self.votes_.annotators, self.confidence)
        return make_table(rows, LeanRow, self._kind)

    def _rate(self, table: VoteTable, settings: LoopSettings) -> Rating:
        if table.features is None:
            self.plain_, self.style_ = None, None
            return super()._rate(table, settings)
        check_style(settings)
        if self.inverse_propensity:
            raise SettingError("features", "and inverse_propensity exclude each other")
        self.plain_ = super()._rate(table, settings)
        styled = control_style(self.plain_, table.votes, table.features)
        self.style_ = styled.style
        return styled.rating

    @property
    def annotators(self) -> Any:
        """All annotators, the most able first, as a table of the caller's kind."""
        self._check_fitted()
        return make_table(self._annotator_rows(), AnnotatorRow, self._kind)

    def flags(self) -> Any:
        """Return the annotators that the rule flags, with the reason, as a table of the caller's kind."""
        self._check_fitted()
        index = {name: i for i, name in enumerate(self.votes_.annotators)}
        rows: list[FlagRow] = []
        for row in self._annotator_rows():
            if row["reason"] is not None:
                strength, about = self._find_evidence(row["reason"], index[row["annotator"]])
                rows.append({**row, "strength": strength, "about": about})
        return make_table(rows, FlagRow, self._kind)

    def _find_evidence(self, test: str, annotator: int) -> tuple[float | None, str | None]:
        """Return the strength of a test on an annotator, and what it found; None for a flag by ability."""
        evidence = self.result_.evidence
        if evidence is None or test not in evidence.log_ratio:
            return None, None
        about = int(evidence.about[test][annotator])
        found = None if about < 0 else SIDES[about] if test == "side" else str(self.votes_.models[about])
        return float(evidence.log_ratio[test][annotator]) / math.log(10.0), found

    def _annotator_rows(self) -> list[AnnotatorRow]:
        return annotator_rows(self.result_, self.votes_.annotators)


@dataclass(kw_only=True, repr=False, eq=False)
class BradleyTerry(JointEstimator):
    """Bradley-Terry (m-ELO): maximum likelihood of P(a beats b) = σ((S_a − S_b) ln 10/400); every vote counts alike.

    Above 0, `min_votes` needs the column annotator. Without that column the intervals "clustered" are by vote.

    Parameters
    ----------
    {settings}
    anchor : (model, Elo points): shifts the scores so that this model has these points
    inverse_propensity : weigh each vote by 1/propensity, a column of the votes, to undo the choice of pairs; needs the
        column annotator, or interval "none"
    features : as for `AmElo`, without leans: P(a beats b) = σ((ln 10/400) (S_a − S_b + xᵀγ)). Without annotators the
        intervals are clustered by the column cluster, such as the battle, the prompt or the session

    Attributes
    ----------
    leaderboard : table of the models, best first
    style : table of the features: γ in Elo points
    plain_ : the round without features
    votes_ : the votes as they were read, with the names by index
    result_ : the round, by index: settings, estimates, diagnostics
    """

    min_votes: float = 0  # there are no abilities to know well, and perhaps no annotators
    interval: Interval = LoopSettings.interval
    confidence: float = LoopSettings.confidence
    base: float = LoopSettings.base
    anchor: tuple[Any, float] | None = None
    inverse_propensity: bool = False
    features: Sequence[str] = ()

    _method: ClassVar[Method] = "m-elo"

    def _rate(self, table: VoteTable, settings: LoopSettings) -> Rating:
        self.plain_, self.style_ = None, None
        plain, votes = super()._rate(table, settings), table.votes
        clusters = votes.annotator.astype(np.int64) if len(votes.annotators) > 1 else table.clusters
        if table.features is not None and self.inverse_propensity:
            raise SettingError("features", "and inverse_propensity exclude each other")
        apart = clusters is not None and len(votes.annotators) == 1 and not self.inverse_propensity
        if table.features is None and not (apart and self.interval == "clustered"):
            return plain
        if clusters is None:
            clusters = np.arange(len(votes.outcome), dtype=np.int64)
        asked = replace(plain, settings=replace(plain.settings, interval=self.interval))
        styled = control_style_plainly(asked, votes, table.features or Features.none(len(votes.outcome)), clusters)
        if table.features is not None:
            self.plain_, self.style_ = plain, styled.style
        return styled.rating
