"""What the page of an annotator shows: the case as pictures, each with the same in words."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from app.annotators.schemas import Action, Annotator, Decision, PastEvidence
from app.pages.charts import draw_band
from app.pages.formatting import moment
from app.review.evidence.reasons import RuleUsed, describe_reasons, describe_weights, format_probability
from app.review.evidence.schemas import Drift, Pace
from app.review.evidence.summary import describe_drift
from app.review.schemas import AnnotatorDetail, Impact, JointImpact
from app.votes.retractions.schemas import VoteOnRecord
from app.wording import duration, percent, plural, points

_MOVES_SHOWN = 6
_WHOLE_SECONDS = 10.0  # from which tenths of a second say nothing


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
    case, low = detail.evidence, detail.probability_low
    history = list(reversed(case.history)) if case else []
    reasons = describe_reasons(detail, case.laboratory, rule) if case else []
    return {
        "annotator": detail,
        "case": case,
        "reasons": reasons,
        "figures": [sentence for sentence in case.summary if sentence not in reasons] if case else [],
        "choices": list_choices(detail),
        "history": history,
        "chart": _draw_history(history, rule.threshold),
        "chart_label": describe_history(history, rule.threshold),
        "low_words": format_probability(low) if rule.by_evidence and low is not None else None,
        "least_probability": rule.least_probability,
        "expected": {one.of: one for one in case.agreement.expected} if case else {},
        "pace_words": _describe_pace(case.pace) if case else "",
        "drift_words": _describe_drift(case.drift) if case else "",
        "weights": describe_weights(detail, case.laboratory.weights) if case else "",
        "records": {vote.id: vote for vote in votes},
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
        (one.ability, one.ability_lower, one.ability_upper)
        if one.ability is not None
        else (one.shadow_ability, one.shadow_lower, one.shadow_upper)
        for one in history
    ]
    return draw_band(shown, [] if threshold is None else [threshold])


def _ability(one: PastEvidence) -> float | None:
    return one.shadow_ability if one.ability is None else one.ability


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
    return clear or f"Within {plural(drift.votes, 'decided vote')} no change of the slope is clear."


def _seconds(value: float) -> str:
    return duration(value) if value >= _WHOLE_SECONDS else f"{value:.1f} seconds"


def view_impact(impact: Impact | JointImpact) -> dict[str, Any]:
    """Return what the preview of an annotator's impact shows: the models that move furthest."""
    furthest = sorted(impact.models, key=lambda one: (one.rank_after == one.rank_before, -abs(one.change or 0.0)))
    shown = furthest[:_MOVES_SHOWN]
    largest = max((abs(one.change or 0.0) for one in shown), default=0.0) or 1.0
    return {"impact": impact, "shown": shown, "largest": largest, "left_out": len(impact.models) - len(shown)}


def describe_decision(annotator: Annotator, decision: Decision) -> str:
    """Say what a decision just taken does."""
    return f"{annotator.annotator} {describe_taken(decision.action)}."


def describe_taken(action: Action) -> str:
    """Say what a decision does, after the name of an annotator."""
    return f"{next(choice.done for choice in CHOICES if choice.action == action)}, from the next refit on"
