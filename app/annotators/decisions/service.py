from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection

from app.annotators import queries as annotators
from app.annotators.decisions import queries as decisions
from app.annotators.service import FoundAnnotator, find_annotator
from app.audit import service as audit
from app.errors import ConflictError
from app.naming.kept_texts import require_nameless

Action = Literal["exclude", "reinstate", "trust", "dismiss", "withdraw"]

OVERRIDES: dict[str, str | None] = {
    "exclude": "excluded",
    "reinstate": "active",
    "trust": "trusted",
    "dismiss": None,
    "withdraw": None,
}
"""What each action puts above the rule."""


MATERIALLY_STRONGER = 2.0
"""By how much log10 of the evidence must have grown for a dismissed flag to be open again."""


class Decision(BaseModel):
    """A reviewer's act on an annotator, with the evidence of the day."""

    model_config = ConfigDict(frozen=True)

    id: UUID
    action: Action
    reason: str
    decided_by: str = Field(description="Name of the key it was decided with.")
    decided_at: datetime
    snapshot_id: UUID | None = Field(description="The newest snapshot at that time.")
    ability: float | None = Field(description="The annotator's ability in that snapshot.")
    se: float | None


def decide(
    conn: Connection, reference: str, action: Action, *, reason: str, decided_by: str
) -> tuple[FoundAnnotator, Decision]:
    """Put a decision on an annotator above the rule; it shapes the board from the next refit on.

    exclude and trust hold until another decision; so does reinstate: the votes count whatever the rule says. withdraw
    gives the annotator back to the rule. dismiss closes an open flag until the ability is more than a standard
    error below what it is now, or the evidence of the votes a hundred times stronger.

    Returns
    -------
    The annotator as it stands after the decision, and the decision.

    Raises
    ------
    NotFoundError
        There is no such annotator.
    BadInputError
        The reason, which is kept for ever, names an annotator who is known by a pseudonym.
    ConflictError
        Nothing to dismiss, or nothing to withdraw.
    """
    found = find_annotator(conn, reference)
    require_nameless(conn, reason, found.keys(reference))
    annotators.lock_annotator(conn, found.annotator_id)
    found = find_annotator(conn, str(found.id))  # as the decision before this one left it
    if action == "dismiss":
        _dismiss(conn, found)
    else:
        if action == "withdraw" and found.override is None and found.dismissed_below is None:
            raise ConflictError(f"no decision on annotator {found.annotator!r} is in force")
        annotators.set_override(conn, found.annotator_id, OVERRIDES[action])
    values = {
        "annotator_id": found.annotator_id,
        "action": action,
        "reason": reason,
        "decided_by": decided_by,
        "snapshot_id": found.snapshot_id,
        "ability": found.ability,
        "se": found.se,
    }
    row = decisions.insert_decision(conn, values)
    audit.record(
        conn,
        actor=decided_by,
        action=f"decision.{action}",
        subject=str(found.id),
        detail={"decision": str(row["id"]), "reason": reason, "ability": found.ability, "se": found.se},
    )
    return find_annotator(conn, str(found.id)), Decision.model_validate(dict(row))


def list_decisions(conn: Connection, annotator: FoundAnnotator) -> list[Decision]:
    """Return every decision on the annotator, the newest first."""
    return [Decision.model_validate(dict(row)) for row in decisions.list_decisions(conn, annotator.annotator_id)]


def _dismiss(conn: Connection, found: FoundAnnotator) -> None:
    if found.standing != "flagged" or found.ability is None:
        raise ConflictError(f"annotator {found.annotator!r} has no open flag; the standing is {found.standing}")
    above = (found.strength or 0.0) + MATERIALLY_STRONGER
    annotators.set_dismissal(conn, found.annotator_id, below=found.ability - (found.se or 0.0), above=above)
