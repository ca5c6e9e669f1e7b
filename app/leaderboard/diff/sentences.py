"""What changed between two leaderboards and between their refits, in sentences."""

from collections.abc import Iterator, Sequence
from typing import Any

from app.leaderboard.diff.schemas import AnnotatorChanges, Causes, RowChange
from app.wording import change, listed, plural, points

MOST_NAMED = 5


def describe_moves(models: Sequence[RowChange]) -> Iterator[str]:
    """Describe score changes, component changes, moves (the largest first), and models that entered or left."""
    components = {number for one in models for number in (one.component_before, one.component_after)} - {None}
    place = " in its component" if len(components) > 1 else ""
    stayed = [one for one in models if one.kind == "stayed"]
    rescored = [one for one in stayed if one.identified_before != one.identified_after]
    same_state = [one for one in stayed if one.identified_before == one.identified_after]
    comparable = [one for one in same_state if one.comparable]
    moved = [one for one in comparable if one.changed and one.identified_after]  # without a score there is no rank
    for one in sorted(rescored, key=lambda m: bool(m.identified_after)):
        yield _describe_score(one, place)
    yield from _describe_components([one for one in same_state if not one.comparable])
    for one in sorted(moved, key=lambda m: -abs(m.change or 0.0)):
        yield _describe_move(one, place)
    for one in models:
        if one.kind == "entered":
            yield f"{one.model} is new, {_at(one.rank_after, place, scored=one.identified_after)}."
        elif one.kind == "left":
            rank = _at(one.rank_before, place, scored=one.identified_before)
            yield f"{one.model} is no longer on the leaderboard; it was {rank}."
    if len(comparable) == len(models) and not moved:
        largest = max((abs(one.change) for one in models if one.change is not None), default=0.0)
        by = f"; the largest change is {points(largest, 1)} points" if round(largest, 1) else ""
        yield f"No model changed its rank or left its interval{by}."


def _describe_score(one: RowChange, place: str) -> str:
    if one.score_after is None:
        return f"{one.model} no longer has a score."
    return f"{one.model} now has a score: {points(one.score_after, 1)} points, {_at(one.rank_after, place)}."


def _at(rank: int | None, place: str, *, scored: bool | None = True) -> str:
    if not scored:
        return "without a score"
    return "provisional, without a rank" if rank is None else f"at rank {rank}{place}"


def _describe_components(models: Sequence[RowChange]) -> Iterator[str]:
    """Name the models whose component changed; models of one later component share a sentence."""
    for component in sorted({one.component_after or 0 for one in models}):
        names = [one.model for one in models if (one.component_after or 0) == component]
        if len(names) == 1:
            yield f"{names[0]} is now compared with other models: its rank and points do not compare with those before."
            continue
        they = listed(names, MOST_NAMED)
        yield f"{they} are now compared with other models: their ranks and points do not compare with those before."


def _describe_move(one: RowChange, place: str) -> str:
    before, after = one.rank_before, one.rank_after
    if before is None or after is None:
        text = f"{one.model} is {_at(after, place)}" if before == after else f"{one.model} is now {_at(after, place)}"
    elif after == before:
        text = f"{one.model} keeps rank {after}{place}"
    else:
        text = f"{one.model} {'rose' if after < before else 'fell'} from rank {before} to {after}{place}"
    gained = change(one.change or 0.0, 1)
    by = "" if gained == "+0.0" else f", {gained} points"
    return f"{text}{by}, {'beyond' if one.beyond_interval else 'within'} its interval."


def describe_causes(causes: Causes) -> Iterator[str]:
    """Describe in sentences what changed."""
    if causes.same_votes:
        yield "Both were made from exactly the same votes."
    else:
        yield f"{change(causes.votes_read)} votes on record, {change(causes.votes_used)} that count."
    yield from _describe_annotators(causes.annotators)
    if causes.policy_version[0] != causes.policy_version[1]:
        yield f"The policy changed from version {causes.policy_version[0]} to {causes.policy_version[1]}."
    for name, (before, after) in causes.settings.items():
        yield f"The setting {name} changed from {_shown(before)} to {_shown(after)}."
    if causes.code_version[0] != causes.code_version[1]:
        yield f"The service's version changed from {causes.code_version[0]} to {causes.code_version[1]}."


def _describe_annotators(annotators: AnnotatorChanges | None) -> Iterator[str]:
    if annotators is None:
        yield "At least one snapshot no longer has its annotators' rows: changes of their standing are unknown."
        return
    if annotators.newly_excluded:
        votes = plural(annotators.newly_excluded_votes, "vote")
        yield f"{plural(annotators.newly_excluded, 'annotator')} newly excluded, with {votes}."
    if annotators.entered:
        verb = "counts" if annotators.entered == 1 else "count"
        yield f"{plural(annotators.entered, 'annotator')} {verb} now and did not before."
    if annotators.newly_flagged or annotators.cleared:
        yield f"{plural(annotators.newly_flagged, 'annotator')} newly flagged, {annotators.cleared:,} cleared."


def _shown(value: Any) -> Any:
    if isinstance(value, dict) and value.keys() == {"model", "score"}:  # an anchor
        return f"{value['model']}={value['score']:g}"
    return "none" if value is None else value
