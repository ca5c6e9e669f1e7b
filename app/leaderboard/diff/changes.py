"""What changed between two refits (votes, annotators, settings, policy, version), in numbers and in sentences."""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection

from app.leaderboard.diff.schemas import AnnotatorChanges, Causes
from app.leaderboard.queries import count_annotator_changes
from app.policy.service import past_policy
from app.rating.errors import counted
from app.snapshots.schemas import Snapshot


def find_causes(conn: Connection, old: Snapshot, new: Snapshot) -> Causes:
    """Compare the inputs of two snapshots."""
    return Causes(
        votes_read=new.votes_read - old.votes_read,
        votes_used=new.votes_used - old.votes_used,
        same_votes=new.votes_hash == old.votes_hash,
        annotators=_annotator_changes(conn, old, new),
        settings=_changed_settings(conn, old, new),
        policy_version=(old.policy_version, new.policy_version),
        code_version=(old.code_version, new.code_version),
    )


def _changed_settings(conn: Connection, old: Snapshot, new: Snapshot) -> dict[str, tuple[Any, Any]]:
    """Return the changed settings of the fit, and the daily quota, which decides which votes enter the fit."""
    before, after = old.settings, new.settings
    if old.policy_version != new.policy_version:
        before, after = (
            {**one.settings, "max_votes_per_day": past_policy(conn, one.policy_version).settings.max_votes_per_day}
            for one in (old, new)
        )
    names = sorted(before.keys() | after.keys())
    return {name: (before.get(name), after.get(name)) for name in names if before.get(name) != after.get(name)}


def _annotator_changes(conn: Connection, old: Snapshot, new: Snapshot) -> AnnotatorChanges | None:
    if old.crowd_pruned_at is not None or new.crowd_pruned_at is not None:
        return None
    return AnnotatorChanges.model_validate(dict(count_annotator_changes(conn, old.id, new.id)))


def describe_causes(causes: Causes) -> Iterator[str]:
    """Describe in sentences what changed."""
    if causes.same_votes:
        yield "Both were made from exactly the same votes."
    else:
        yield f"{causes.votes_read:+,} votes on record, {causes.votes_used:+,} that count."
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
        votes = counted(annotators.newly_excluded_votes, "vote")
        yield f"{counted(annotators.newly_excluded, 'annotator')} newly excluded, with {votes}."
    if annotators.entered:
        verb = "counts" if annotators.entered == 1 else "count"
        yield f"{counted(annotators.entered, 'annotator')} {verb} now and did not before."
    if annotators.newly_flagged or annotators.cleared:
        yield f"{counted(annotators.newly_flagged, 'annotator')} newly flagged, {annotators.cleared:,} cleared."


def _shown(value: Any) -> Any:
    return "none" if value is None else value
