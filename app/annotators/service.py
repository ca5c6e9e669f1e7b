from contextlib import suppress
from uuid import UUID

from sqlalchemy import Connection, update

from app.annotators import queries as store
from app.annotators.kinds import Kind
from app.annotators.schemas import Action, Decision, FoundAnnotator, PastEvidence, VotesSummary
from app.audit import service as audit
from app.database.ids import as_id
from app.database.tables import annotators
from app.errors import ConflictError, NotFoundError
from app.naming.names import name_error
from app.naming.service import naming_of
from app.rating.settings import Standing
from app.webhooks.events import announce


def list_annotators(
    conn: Connection,
    *,
    limit: int,
    standing: Standing | None = None,
    key: str | None = None,
    after: tuple[float, int] | None = None,
) -> list[FoundAnnotator]:
    """Return annotators, the lowest ability first, those without any ability last.

    `key`: picks one annotator, by the raw key or by the key that is shown.
    `after`: `position` of the last annotator of the page before.
    """
    if key is not None and name_error(key) is not None:
        return []
    keys = None if key is None else naming_of(conn).matching_keys(key)
    rows = store.list_annotators(conn, standing=standing, keys=keys, limit=limit, after=after)
    return [FoundAnnotator.model_validate(dict(row)) for row in rows]


def search_annotators(
    conn: Connection, text: str, *, limit: int, standing: Standing | None = None, after: str | None = None
) -> list[FoundAnnotator]:
    """Return annotators whose key, as it is shown, begins with this text, by key.

    The first page also has the annotator with this id or this raw key, which comes first.

    `after`: key of the last annotator of the page before.
    """
    if name_error(text) is not None:
        return []
    rows = store.search_annotators(conn, beginning=text, standing=standing, limit=limit, after=after)
    found = [FoundAnnotator.model_validate(dict(row)) for row in rows]
    if after is None:
        with suppress(NotFoundError):
            exact = find_annotator(conn, text)
            if standing in (None, exact.standing):
                found = [exact, *(one for one in found if one.id != exact.id)]
    return found[:limit]


def find_annotator(conn: Connection, reference: str) -> FoundAnnotator:
    """Return the annotator with this public id or key; the key may be raw or as it is shown. Raises NotFoundError."""
    row = None
    if name_error(reference) is None:
        keys = naming_of(conn).matching_keys(reference)
        row = store.find_annotator(conn, public_id=as_id(reference), keys=keys)
    if row is None:
        # The message leaves the reference out: it may be a raw key, and errors are logged.
        raise NotFoundError("there is no annotator with this id or key")
    return FoundAnnotator.model_validate(dict(row))


def summarise_votes(conn: Connection, annotator: FoundAnnotator) -> VotesSummary:
    """Count the annotator's votes so far."""
    return VotesSummary.model_validate(dict(store.summarise_votes(conn, annotator.annotator_id)))


def list_history(
    conn: Connection, annotator: FoundAnnotator, *, limit: int, before: int | None = None
) -> list[PastEvidence]:
    """Return the annotator's figures in past snapshots, the newest first, those with a number below `before`."""
    rows = store.list_history(conn, annotator.annotator_id, limit=limit, before=before)
    return [PastEvidence.model_validate(dict(row)) for row in rows]


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
    conn: Connection, reference: str, action: Action, *, reason: str, decided_by: str, group_id: UUID | None = None
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
    found = lock_annotator(conn, reference)
    if action == "dismiss" and (found.standing != "flagged" or found.ability is None):
        raise ConflictError(f"annotator {found.annotator!r} has no open flag; the standing is {found.standing}")
    if action == "withdraw" and found.override is None and found.dismissed_below is None:
        raise ConflictError(f"no decision on annotator {found.annotator!r} is in force")
    return _take(conn, found, action, reason=reason, decided_by=decided_by, group_id=group_id)


def lock_annotator(conn: Connection, reference: str) -> FoundAnnotator:
    """Return an annotator, by id or key, and lock the row until the transaction ends. Raises NotFoundError."""
    found = find_annotator(conn, reference)
    store.lock_annotators(conn, [found.annotator_id])
    return find_annotator(conn, str(found.id))  # a decision may have come in before the lock


def _take(
    conn: Connection,
    found: FoundAnnotator,
    action: Action,
    *,
    reason: str,
    decided_by: str,
    group_id: UUID | None = None,
) -> tuple[FoundAnnotator, Decision]:
    until: dict[str, float] = {}
    if action == "dismiss":
        assert found.ability is not None  # noqa: S101  as the callers have seen
        above = (found.strength or 0.0) + MATERIALLY_STRONGER
        until = {"below": found.ability - (found.se or 0.0), "above": above}
    store.set_override(conn, found.annotator_id, OVERRIDES[action], **until)
    facts = {"reason": reason, "ability": found.ability, "se": found.se}
    values = {"annotator_id": found.annotator_id, "snapshot_id": found.snapshot_id, "group_id": group_id, **facts}
    row = store.insert_decision(conn, {"action": action, "decided_by": decided_by, **values})
    detail = {"decision": str(row["id"]), **facts, **({"group": str(group_id)} if group_id else {})}
    audit.record(conn, actor=decided_by, action=f"decision.{action}", subject=str(found.id), detail=detail)
    after = find_annotator(conn, str(found.id))
    # Without the key and the reason, which may name a person.
    message = {"id": str(found.id), "decision": str(row["id"]), "action": action, "standing": after.standing}
    announce(conn, "annotator.decided", message)
    return after, Decision.model_validate(dict(row))


def undo_decision(
    conn: Connection, reference: str, decision_id: UUID, *, decided_by: str
) -> tuple[FoundAnnotator, Decision]:
    """Take back the last decision on an annotator: a further decision, which brings back what held before it.

    Raises NotFoundError.
    Raises ConflictError: it is not the last decision: undoing it would undo what was decided since.
    """
    found = lock_annotator(conn, reference)
    decisions = list_decisions(conn, found)
    if not decisions or decisions[0].id != decision_id:
        raise ConflictError("another decision was taken since: look at the annotator again")
    last, before = decisions[0], decisions[1].action if len(decisions) > 1 else "withdraw"
    reason = f"undo: {last.action} of {last.decided_at:%Y-%m-%d %H:%M}"
    if before == "dismiss":
        if last.action != "dismiss" and found.rule_standing == "flagged" and found.ability is not None:
            return _take(conn, found, "dismiss", reason=reason, decided_by=decided_by)
        # Before a second dismissal the flag was open again. And where the rule flags the annotator no longer, there is
        # nothing to dismiss.
        before = "withdraw"
    return decide(conn, str(found.id), before, reason=reason, decided_by=decided_by)


def list_decisions(conn: Connection, annotator: FoundAnnotator) -> list[Decision]:
    """Return every decision on the annotator, the newest first."""
    return [Decision.model_validate(dict(row)) for row in store.list_decisions(conn, annotator.annotator_id)]


def set_kind(conn: Connection, reference: str, kind: Kind, *, changed_by: str) -> FoundAnnotator:
    """Say of an annotator, by id or key, what they are, whatever was said before; the next refit is the first to know.

    Raises NotFoundError.
    """
    found = find_annotator(conn, reference)
    if found.kind != kind:
        conn.execute(update(annotators).where(annotators.c.id == found.annotator_id).values(kind=kind))
        detail = {"kind": kind, "before": found.kind}
        audit.record(conn, actor=changed_by, action="annotator.kind", subject=str(found.id), detail=detail)
    return find_annotator(conn, str(found.id))
