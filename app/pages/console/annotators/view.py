"""What the page of an annotator shows: the case as pictures, each with the same in words."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from app.annotators.schemas import Action, Annotator, Decision, PastEvidence
from app.pages.charts import BandPoint, draw_band
from app.pages.formatting import moment
from app.review.evidence.pace import HASTE, UNUSUAL
from app.review.evidence.reasons import RuleUsed, format_probability
from app.review.evidence.schemas import Agreement, Case, Drift, Gap, Pace, Sides, SurprisingVote, Ties
from app.review.evidence.summary import describe_drift
from app.review.schemas import AnnotatorDetail, Impact, JointImpact
from app.votes.retractions.schemas import VoteOnRecord
from app.wording import change, duration, percent, plural, points

_MODELS_SHOWN = 12
_WIDEST = 8.0  # standard deviations at which the bar of a model ends
_MOVES_SHOWN = 6
_LEAST_SHARE = 0.001  # that is written as a number
_WHOLE_SECONDS = 10.0  # from which tenths of a second say nothing


@dataclass(frozen=True)
class ShareView:
    """A share beside the expected one, and the same in words."""

    label: str
    share: float | None
    expected: float | None
    words: str


@dataclass(frozen=True)
class BarView:
    """A bar that goes from the middle to the left or to the right, in a box of 100 × 12."""

    left: float
    width: float
    unusual: bool


@dataclass(frozen=True)
class Choice:
    """A decision that can be taken now; `done` is what the notice says afterwards."""

    action: Action
    text: str
    effect: str
    done: str

    @property
    def key(self) -> str:
        """The key that chooses it."""
        return self.action[0]


CHOICES = (
    Choice("exclude", "Exclude", "The votes do not count.", "is excluded: the votes do not count"),
    Choice(
        "dismiss",
        "Dismiss the flag",
        "The flag closes until the evidence is clearly stronger.",
        "has no open flag any more",
    ),
    Choice(
        "trust",
        "Trust",
        "The votes count, and the annotator is not flagged any more.",
        "is trusted: the votes count, and no flag opens",
    ),
    Choice("reinstate", "Reinstate", "The votes count, whatever the rule says.", "counts, whatever the rule says"),
    Choice("withdraw", "Withdraw", "The decision in force ends; the rule decides again.", "is given back to the rule"),
)


def view_case(detail: AnnotatorDetail, rule: RuleUsed, votes: Sequence[VoteOnRecord]) -> dict[str, Any]:
    """Return what the template shows; `votes` are the surprising votes as recorded."""
    case, threshold, low = detail.evidence, rule.threshold, detail.probability_low
    history = list(reversed(case.history)) if case else []
    return {
        "annotator": detail,
        "case": case,
        "choices": list_choices(detail),
        "last_decision": detail.decisions[0] if detail.decisions else None,
        "threshold": threshold,
        "chart": _draw_history(history, threshold),
        "chart_label": describe_history(history, threshold),
        "first": history[0] if history else None,
        "last": history[-1] if history else None,
        "estimates": _view_estimates(detail),
        "low_words": format_probability(low) if rule.by_evidence and low is not None else None,
        "least_probability": rule.least_probability,
        "agreement": _view_agreement(case.agreement) if case else [],
        "habits": [*_view_sides(case.sides), *_view_ties(case.ties)] if case else [],
        "models": [(one, _bar(one.residual, _WIDEST, UNUSUAL)) for one in case.models[:_MODELS_SHOWN]] if case else [],
        "models_left_out": max(len(case.models) - _MODELS_SHOWN, 0) if case else 0,
        "pace": _view_pace(case.pace) if case else [],
        "pace_words": _describe_pace(case.pace) if case else "",
        "drift_words": _describe_drift(case.drift) if case else "",
        "surprising": _with_records(case, votes),
    }


def list_choices(annotator: Annotator) -> list[Choice]:
    """Return the decisions that would change something."""
    useless = {{"excluded": "exclude", "trusted": "trust", "active": "reinstate"}.get(annotator.override or "")}
    if annotator.standing != "flagged" or annotator.ability is None:
        useless.add("dismiss")
    if annotator.override is None:
        useless.add("withdraw")
    return [choice for choice in CHOICES if choice.action not in useless]


def describe_history(history: Sequence[PastEvidence], threshold: float | None) -> str:
    """Describe the abilities over the snapshots in a sentence."""
    known = [one for one in history if _ability(one) is not None]
    if not known:
        return "No snapshot has an ability of this annotator."
    first, last = known[0], known[-1]
    line = f" The dashed line is ε = {threshold:g}." if threshold is not None else ""
    now = f"{points(_ability(last), 2)} in snapshot {last.number}"
    if len(known) == 1:
        return f"Ability {now}.{line}"
    return f"Ability from {points(_ability(first), 2)} in snapshot {first.number} to {now}.{line}"


def _draw_history(history: Sequence[PastEvidence], threshold: float | None) -> Any:
    shown = [
        BandPoint(one.ability, one.ability_lower, one.ability_upper)
        if one.ability is not None
        else BandPoint(one.shadow_ability, one.shadow_lower, one.shadow_upper)
        for one in history
    ]
    return draw_band(shown, [] if threshold is None else [threshold])


def _ability(one: PastEvidence) -> float | None:
    return one.shadow_ability if one.ability is None else one.ability


def _view_estimates(one: Annotator) -> list[tuple[str, str, str, str]]:
    """Return the adjusted ability, the habits and the tastes: name, value, interval, meaning."""
    meaning = "Elo points beyond the crowd's for one standard deviation more, or for being on the left."
    tastes = [
        _estimate(f"Likes {name}", (lean.points, lean.lower, lean.upper), lambda x: points(x, 0), meaning)
        for name, lean in (one.leans or {}).items()
    ]
    if one.adjusted_ability is None:
        return tastes
    ability = one.adjusted_ability, one.adjusted_lower, one.adjusted_upper
    ties = one.tie_readiness, one.tie_readiness_lower, one.tie_readiness_upper
    lean = one.side_lean, one.side_lean_lower, one.side_lean_upper
    alone = "By these votes alone, not drawn to the crowd's law; no rule reads it."
    rows = [_estimate("Adjusted ability", ability, lambda x: points(x, 2), alone)]
    if one.tie_readiness is not None:
        rows.append(_estimate("Ties between equals", ties, percent, "A habit, which is not held against anyone."))
    if one.side_lean is not None:
        side = "left" if one.side_lean >= 0.0 else "right"
        rows.append(_estimate(f"Lean to the {side}", lean, lambda x: points(x, 0), "Elo points for the left side."))
    return rows + tastes


def _estimate(
    name: str, ends: tuple[float | None, float | None, float | None], form: Callable[[float | None], str], meaning: str
) -> tuple[str, str, str, str]:
    value, lower, upper = (form(x) for x in ends)
    return name, value, f"{lower} to {upper}", meaning


def _view_agreement(agreement: Agreement) -> list[ShareView]:
    typical = next((one for one in agreement.expected if one.of == "typical"), None)
    own = next((one for one in agreement.expected if one.of == "own"), None)
    if agreement.accuracy is None or typical is None:
        return []
    z = "" if typical.accuracy_z is None else f" (z = {change(typical.accuracy_z, 1)})"
    words = f"{percent(agreement.accuracy)}; a typical annotator would reach {percent(typical.accuracy)}{z}"
    rows = [ShareView("Votes for the model with the higher score", agreement.accuracy, typical.accuracy, words)]
    if own is not None and own.accuracy is not None:
        own_words = f"{percent(own.accuracy)} is expected with the estimated ability"
        rows.append(ShareView("The same, as estimated", own.accuracy, None, own_words))
    return rows


def _view_sides(sides: Sides) -> list[ShareView]:
    if sides.left is None:
        return []
    chance = "" if sides.p_value is None else f"; by chance alone so far off: {_probability(sides.p_value)}"
    words = f"{percent(sides.left)} of {plural(sides.votes, 'decided vote')}; {percent(sides.expected_left)} expected"
    return [ShareView("Votes for the left model", sides.left, sides.expected_left, words + chance)]


def _view_ties(ties: Ties) -> list[ShareView]:
    if ties.share is None:
        return []
    words = f"{percent(ties.share)} of {plural(ties.votes, 'vote')}; {percent(ties.expected)} among all annotators"
    return [ShareView("Ties", ties.share, ties.expected, words)]


def _probability(value: float) -> str:
    return "less than 0.1%" if value < _LEAST_SHARE else percent(value, 1)


def _view_pace(pace: Pace) -> list[tuple[str, int, float, bool]]:
    """Return each row: how long after the vote before, how many votes, the bar's width, whether that stands out."""
    most = max((gap.votes for gap in pace.gaps), default=0)
    rows, before = [], 0.0
    for gap in pace.gaps:
        rows.append(
            (
                _span(before, gap),
                gap.votes,
                round(100.0 * gap.votes / most, 2) if most else 0.0,
                pace.hurried and before < HASTE,
            )
        )
        before = gap.seconds or math.inf
    return rows if most else []


def _span(before: float, gap: Gap) -> str:
    if gap.seconds is None:
        return f"more than {duration(before)}"
    return f"up to {duration(gap.seconds)}"


def _describe_pace(pace: Pace) -> str:
    if pace.median_seconds is None:
        return "The times of the votes are not known."
    words = f"The middle time between two votes is {_seconds(pace.median_seconds)}."
    if pace.hasty is not None and pace.typical_hasty is not None:
        words += f" {percent(pace.hasty)} came within 5 seconds of the one before, as did {percent(pace.typical_hasty)}"
        words += " of a typical annotator's."
    if pace.busiest_hour is not None:
        hour = pace.busiest_hour
        words += f" The busiest hour has {plural(hour.votes, 'vote')}, from {moment(hour.since)}."
    return words


def _describe_drift(drift: Drift | None) -> str:
    if drift is None:
        return ""
    clear = next(describe_drift(drift), None)
    return clear or f"Within {plural(drift.votes, 'decided vote')} no change of the ability is clear."


def _seconds(value: float) -> str:
    return duration(value) if value >= _WHOLE_SECONDS else f"{value:.1f} seconds"


def _with_records(case: Case | None, votes: Sequence[VoteOnRecord]) -> list[tuple[SurprisingVote, VoteOnRecord | None]]:
    by_id = {vote.id: vote for vote in votes}
    return [(one, by_id.get(one.id)) for one in case.surprising] if case else []


def view_impact(impact: Impact | JointImpact) -> dict[str, Any]:
    """Return what the preview of an annotator's impact shows: the models that move furthest."""
    furthest = sorted(impact.models, key=lambda one: (one.rank_after == one.rank_before, -abs(one.change or 0.0)))
    shown = furthest[:_MOVES_SHOWN]
    largest = max((abs(one.change or 0.0) for one in shown), default=0.0) or 1.0
    rows = [(one, _bar(one.change, largest)) for one in shown]
    return {"impact": impact, "rows": rows, "left_out": len(impact.models) - len(shown)}


def _bar(value: float | None, widest: float, unusual: float = math.inf) -> BarView:
    size = abs(value or 0.0)
    length = 50.0 * min(size / widest, 1.0)
    return BarView(round(50.0 if (value or 0.0) >= 0 else 50.0 - length, 2), round(length, 2), size >= unusual)


def describe_decision(annotator: Annotator, decision: Decision) -> str:
    """Say what a decision just taken does."""
    return f"{annotator.annotator} {describe_taken(decision.action)}."


def describe_taken(action: Action) -> str:
    """Say what a decision does, after the name of an annotator."""
    return f"{next(choice.done for choice in CHOICES if choice.action == action)}, from the next refit on"
