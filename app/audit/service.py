import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pydantic import Field
from sqlalchemy import Connection

from app.audit import queries as store
from app.audit.queries import Head
from app.errors import StableArenaError
from app.schemas import FrozenModel

_BEFORE_THE_FIRST = bytes(32)


class TamperedAuditLogError(StableArenaError):
    """The audit log was changed after it was written."""

    code = "audit-log-tampered"
    title = "The audit log has been changed"


class AuditEntry(FrozenModel):
    """One change of annotators, rules or keys."""

    number: int = Field(description="Grows by one with every entry.")
    happened_at: datetime
    actor: str = Field(description="Name of the key that did it, or `command line`.")
    action: str = Field(description="What was done: `decision.exclude`, `policy.set`, …")
    subject: str = Field(description="What it was done to: an id or a version.")
    detail: dict[str, Any]
    hash: str = Field(description="SHA-256 of this entry and of the hash of the entry before, in hexadecimal.")


@dataclass(frozen=True)
class VerifiedLog:
    """The number of entries of an unchanged audit log, and the newest entry's hash (None if there is none)."""

    entries: int
    head: str | None


def record(conn: Connection, *, actor: str, action: str, subject: str, detail: Mapping[str, Any]) -> None:
    """Add an entry to the audit log, in the transaction of what it describes.

    `detail` is stored as JSON. It must not hold what may have to be erased later, because entries are never deleted.
    """
    happened_at = store.lock_log(conn)
    head = store.read_head(conn)
    values = {
        "number": head.number + 1 if head else 1,
        "happened_at": happened_at,
        "actor": actor,
        "action": action,
        "subject": subject,
        "detail": json.dumps(detail, ensure_ascii=False, sort_keys=True, separators=(",", ":"), default=str),
        "previous_hash": head.hash if head else _BEFORE_THE_FIRST,
    }
    store.append_entry(conn, {**values, "hash": entry_hash(values)})


def list_entries(
    conn: Connection,
    *,
    limit: int,
    before: int | None = None,
    action: str | None = None,
    actor: str | None = None,
    subject: str | None = None,
) -> list[AuditEntry]:
    """Return entries, the newest first, only those with a number below `before`.

    `action`: `decision.exclude`, or `decision` for all decisions.
    `actor`, `subject`: who did it, and to what.
    """
    rows = store.list_entries(conn, limit=limit, before=before, action=action, actor=actor, subject=subject)
    return [_public(dict(row)) for row in rows]


def audit_head(conn: Connection) -> dict[str, Any] | None:
    """Return the newest entry's `number` and `hash`. Written down elsewhere, they show if entries are cut off later."""
    head = store.read_head(conn)
    return head and {"number": head.number, "hash": head.hash.hex()}


def verify_log(conn: Connection, noted: Mapping[str, Head] | None = None) -> VerifiedLog:
    """Check that no entry was changed, removed, added in between or cut off.

    Every entry must have the hash of its own content and name the hash of the entry before. `noted` are heads that
    were written down elsewhere, by where: {"snapshot 7": …}. Each must be in the log. Without them, a log whose newest
    entries were cut off would pass.

    Raises TamperedAuditLogError: the message names the first place that differs.
    """
    witnessed = {head.number: (head.hash, source) for source, head in (noted or {}).items()}
    number, previous = 0, _BEFORE_THE_FIRST
    for entry in store.walk_entries(conn):
        row = dict(entry)
        number += 1
        if row["number"] != number:
            raise TamperedAuditLogError(f"entry {number} is missing: {row['number']} follows {number - 1}")
        if bytes(row["previous_hash"]) != previous or bytes(row["hash"]) != entry_hash(row):
            raise TamperedAuditLogError(f"entry {number} or the one before it was changed")
        previous = bytes(row["hash"])
        if number in witnessed and witnessed[number][0] != previous:
            raise TamperedAuditLogError(f"entry {number} has another hash than {witnessed[number][1]} knows")
    if beyond := [n for n in witnessed if n > number]:
        raise TamperedAuditLogError(
            f"the log ends at entry {number}, but {witnessed[max(beyond)][1]} knows entry {max(beyond)}"
        )
    return VerifiedLog(number, previous.hex() if number else None)


def entry_hash(entry: Mapping[str, Any]) -> bytes:
    """Return the SHA-256 of an entry: its fields and the previous entry's hash, as one line of JSON."""
    content = [
        entry["number"],
        entry["happened_at"].astimezone(UTC).isoformat(),
        *(entry[name] for name in ("actor", "action", "subject", "detail")),
        bytes(entry["previous_hash"]).hex(),
    ]
    return hashlib.sha256(json.dumps(content, separators=(",", ":")).encode()).digest()


def _public(row: Mapping[str, Any]) -> AuditEntry:
    shown = {**row, "detail": json.loads(row["detail"]), "hash": bytes(row["hash"]).hex()}
    return AuditEntry.model_validate({name: shown[name] for name in AuditEntry.model_fields})
