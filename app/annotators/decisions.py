from sqlalchemy import Connection

from app.annotators import queries as store
from app.annotators.schemas import Action, Decision, FoundAnnotator
from app.annotators.service import find_annotator
from app.audit import service as audit
from app.errors import ConflictError

OVERRIDES: dict[str, str | None] = {
    "exclude": "excluded",
    "reinstate": "active",
    "trust": "trusted",
    "dismiss": None,
    "withdraw": None,
}
"""The override that each action sets; None removes it."""

MATERIALLY_STRONGER = 2.0
"""A dismissed flag opens again when log10 of the evidence has grown by more than this."""


def decide(
    conn: Connection, reference: str, action: Action, *, reason: str, decided_by: str
) -> tuple[FoundAnnotator, Decision]:
    """Record a decision on an annotator and put it above the rule, from the next refit on.

    exclude, reinstate and trust hold until another decision. withdraw gives the annotator back to the rule. dismiss
    closes an open flag until the ability falls by more than a standard error or the evidence of the votes is a hundred
    times stronger.

    Returns
    -------
    The annotator after the decision, and the decision.

    Raises
    ------
    NotFoundError
    ConflictError
        There is no flag to dismiss, or no decision to withdraw.
    """
    found = find_annotator(conn, reference)
    store.lock_annotator(conn, found.annotator_id)
    found = find_annotator(conn, str(found.id))  # a decision may have come in before the lock
    if action == "dismiss":
        _dismiss(conn, found)
    else:
        if action == "withdraw" and found.override is None and found.dismissed_below is None:
            raise ConflictError(f"no decision on annotator {found.annotator!r} is in force")
        store.set_override(conn, found.annotator_id, OVERRIDES[action])
    values = {
        "annotator_id": found.annotator_id,
        "action": action,
        "reason": reason,
        "decided_by": decided_by,
        "snapshot_id": found.snapshot_id,
        "ability": found.ability,
        "se": found.se,
    }
    row = store.insert_decision(conn, values)
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
    return [Decision.model_validate(dict(row)) for row in store.list_decisions(conn, annotator.annotator_id)]


def _dismiss(conn: Connection, found: FoundAnnotator) -> None:
    if found.standing != "flagged" or found.ability is None:
        raise ConflictError(f"annotator {found.annotator!r} has no open flag; the standing is {found.standing}")
    above = (found.strength or 0.0) + MATERIALLY_STRONGER
    store.set_dismissal(conn, found.annotator_id, below=found.ability - (found.se or 0.0), above=above)
