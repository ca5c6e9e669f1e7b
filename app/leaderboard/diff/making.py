"""What differed in the making of two snapshots, in numbers and in words."""

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection

from app.leaderboard.diff.queries import count_annotator_changes
from app.policy.service import past_policy
from app.snapshots.service import Snapshot


class AnnotatorChanges(BaseModel):
    """How many annotators changed their standing, and how."""

    model_config = ConfigDict(frozen=True)

    entered: int = Field(description="Count now, and did not before: enough votes, or let back in.")
    newly_excluded: int
    newly_excluded_votes: int = Field(description="Votes of the newly excluded.")
    newly_flagged: int
    cleared: int = Field(description="No longer flagged, and not excluded.")


class Causes(BaseModel):
    """What differed in the making of two snapshots: whatever moved, moved because of these."""

    model_config = ConfigDict(frozen=True)

    votes_read: int = Field(description="Votes read by the later snapshot, less those read by the earlier.")
    votes_used: int = Field(description="The same of the votes that count.")
    same_votes: bool = Field(description="Whether both read exactly the same votes.")
    annotators: AnnotatorChanges | None = Field(
        description="Null where a snapshot is so old that it has let go of its annotators' rows."
    )
    settings: dict[str, tuple[Any, Any]] = Field(
        description="Settings of the fit, and the policy's max_votes_per_day, that changed: before, after."
    )
    policy_version: tuple[int, int]
    code_version: tuple[str, str]


def find_causes(conn: Connection, old: Snapshot, new: Snapshot) -> Causes:
    """Compare how two snapshots were made."""
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
    """Return what differs of the fits' settings, and of the quota, which decides before a fit which votes it gets."""
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


def tell_causes(causes: Causes) -> Iterator[str]:
    """Say in words what differed."""
    if causes.same_votes:
        yield "Both were made from exactly the same votes."
    else:
        yield f"{_signed(causes.votes_read)} votes on record, {_signed(causes.votes_used)} that count."
    yield from _tell_annotators(causes.annotators)
    if causes.policy_version[0] != causes.policy_version[1]:
        yield f"The policy changed from version {causes.policy_version[0]} to {causes.policy_version[1]}."
    for name, (before, after) in causes.settings.items():
        yield f"The setting {name} changed from {_shown(before)} to {_shown(after)}."
    if causes.code_version[0] != causes.code_version[1]:
        yield f"The service's version changed from {causes.code_version[0]} to {causes.code_version[1]}."


def _tell_annotators(annotators: AnnotatorChanges | None) -> Iterator[str]:
    if annotators is None:
        yield "Which annotators changed their standing is no longer on record for both."
        return
    if annotators.newly_excluded:
        votes = f"{annotators.newly_excluded_votes:,} votes"
        yield f"{_annotators(annotators.newly_excluded)} newly excluded, with {votes}."
    if annotators.entered:
        yield f"{_annotators(annotators.entered)} count now and did not before."
    if annotators.newly_flagged or annotators.cleared:
        yield f"{_annotators(annotators.newly_flagged)} newly flagged, {annotators.cleared:,} cleared."


def _annotators(number: int) -> str:
    return f"{number:,} annotator{'s' if number != 1 else ''}"


def _signed(number: int) -> str:
    return f"{number:+,}"


def _shown(value: Any) -> Any:
    return "none" if value is None else value
