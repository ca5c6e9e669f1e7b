"""The annotators of a snapshot by ability and by votes, and where each would stand at another ε and δ."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, func, select

from app.database.tables import snapshot_annotators
from app.policy.schemas import Policy
from app.rating.settings import BY_ABILITY, TASTE_TESTS

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Texts = NDArray[np.str_]

_WIDTH, _LOWEST, _HIGHEST = 0.1, -1.0, 2.4  # of bins of abilities; the first and the last hold everything beyond


@dataclass(frozen=True)
class Bin:
    """How many annotators of one standing have an ability, or a number of votes, from `low` to `high`."""

    low: float
    high: float
    standing: str
    annotators: int


@dataclass(frozen=True)
class SnapshotAnnotators:
    """The annotators of a snapshot, arrays of shape (n_annotators,).

    Attributes
    ----------
    ability, se : shadow abilities outside the fit, NaN where unknown
    votes : on record at that refit
    standing, rule_standing : as in the snapshot; they differ where a decision holds
    rule : what flags, "" for nothing
    strength : log10 of the ratio of the strongest test, −∞ without one
    supported : whether enough judges stand behind the scores of the annotator's models
    """

    ability: Floats
    se: Floats
    votes: NDArray[np.int64]
    standing: Texts
    rule_standing: Texts
    rule: Texts
    strength: Floats
    supported: Mask

    def shown(self, standing: Texts) -> Mask:
        """Return which annotators are past δ, by these standings, and have a known ability."""
        shown: Mask = np.isfinite(self.ability) & (standing != "pending")
        return shown

    def judge(self, policy: Policy) -> Texts:
        """Return the standings that the rule would give with this policy, at the scores and tests of the refit."""
        by_evidence, epsilon = policy.flag_rule == "evidence", policy.min_ability
        least = policy.min_probability if by_evidence else None
        was_low = np.isin(self.rule_standing, ("flagged", "excluded"))
        low = self._low(epsilon, least) | (was_low & self._low(epsilon + policy.release_margin, least))
        tested = ~np.isin(self.rule, ("", BY_ABILITY)) | (self.strength >= math.log10(policy.evidence_ratio))
        if not by_evidence:
            tested = np.zeros_like(low)
        acted = low | (tested & ~np.isin(self.rule, TASTE_TESTS))
        judged = np.where(low | tested, "flagged", "active")
        if policy.on_low_ability == "exclude":
            judged = np.where(acted, "excluded", judged)
        ruled = self.standing == self.rule_standing
        out = (self.standing == "excluded") & ~ruled
        judged = np.where(ruled & (np.isfinite(self.ability) | (self.standing == "pending")), judged, self.standing)
        standing: Texts = np.where((self.votes <= policy.min_votes) & ~out, "pending", judged)
        return standing

    def _low(self, epsilon: float, least: float | None) -> Mask:
        """Return whose ability is at or below ε with this probability, beside enough judges; None: as estimated."""
        if least is None:
            return np.asarray(self.ability <= epsilon)
        with np.errstate(invalid="ignore", divide="ignore"):
            likely: Mask = (epsilon - self.ability) / self.se >= NormalDist().inv_cdf(least)
        return likely & self.supported


def read_crowd(conn: Connection, snapshot_id: UUID) -> SnapshotAnnotators:
    """Return the annotators of a snapshot."""
    c = snapshot_annotators.c
    evidence = c.evidence["rule"].as_string(), c.evidence["strength"].as_float(), c.evidence["judges"].as_float()
    known = func.coalesce(c.ability, c.shadow_ability), func.coalesce(c.se, c.shadow_se)
    columns = *known, c.votes, c.standing, c.rule_standing, *evidence
    rows = conn.execute(select(*columns).where(c.snapshot_id == snapshot_id)).all()
    ability, se, votes, standing, rule_standing, rule, strength, judges = zip(*rows, strict=True) if rows else [()] * 8
    return SnapshotAnnotators(
        ability=np.array(ability, dtype=np.float64),
        se=np.array(se, dtype=np.float64),
        votes=np.array(votes, dtype=np.int64),
        standing=np.array(standing, dtype=np.str_),
        rule_standing=np.array(rule_standing, dtype=np.str_),
        rule=np.array([one or "" for one in rule], dtype=np.str_),
        strength=np.array([-math.inf if one is None else one for one in strength], dtype=np.float64),
        supported=np.array([one is None for one in judges], dtype=np.bool_),
    )


def bin_abilities(crowd: SnapshotAnnotators, standing: Texts) -> list[Bin]:
    """Count the annotators past δ by ability, in bins of a tenth, and by these standings."""
    shown = crowd.shown(standing)
    low = np.clip(np.floor(10.0 * crowd.ability[shown]) / 10.0, _LOWEST, _HIGHEST)
    return list(_count(low, lambda start: start + _WIDTH, standing[shown]))


def bin_votes(crowd: SnapshotAnnotators, standing: Texts) -> list[Bin]:
    """Count the annotators by votes, in a bin for each doubling, and by these standings."""
    some = crowd.votes > 0
    low = 2.0 ** np.floor(np.log2(crowd.votes[some]))
    return list(_count(low, lambda start: 2.0 * start, standing[some]))


def count_beyond(crowd: SnapshotAnnotators, standing: Texts, policy: Policy) -> Mapping[str, Any]:
    """Count the annotators past δ at or below ε (`low`), those flagged or excluded, and those with δ votes or fewer.

    `flagged_low` counts those of the flagged at or below ε; `low_share` and `few_share` are shares of all votes.
    """
    total = max(int(crowd.votes.sum()), 1)
    shown, few = crowd.shown(standing), crowd.votes <= policy.min_votes
    low = shown & (np.nan_to_num(crowd.ability, nan=np.inf) <= policy.min_ability)
    flagged = shown & np.isin(standing, ("flagged", "excluded"))
    return {
        "low": int(low.sum()),
        "low_share": int(crowd.votes[low].sum()) / total,
        "flagged": int(flagged.sum()),
        "flagged_low": int((flagged & low).sum()),
        "few": int(few.sum()),
        "few_share": int(crowd.votes[few].sum()) / total,
    }


def _count(low: Floats, end_of: Callable[[float], float], standing: Texts) -> Iterator[Bin]:
    shown = np.where(np.isin(standing, ("active", "trusted")), "counts", standing)
    for each in np.unique(shown).tolist():
        starts, counts = np.unique(low[shown == each], return_counts=True)
        for start, number in zip(starts.tolist(), counts.tolist(), strict=True):
            yield Bin(start, end_of(start), each, number)
