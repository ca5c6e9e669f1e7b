"""Cuts the link between votes and the person who cast them, in every table that holds a key or a person's words."""

import json
import re
import secrets
from collections.abc import Sequence

import structlog
from sqlalchemy import Connection, delete, func, or_, select, text, update

from app.annotators.schemas import Erasure, FoundAnnotator
from app.annotators.service import find_annotator, lock_annotator
from app.audit import service as audit
from app.database.tables import (
    annotators,
    appeals,
    battles,
    exports,
    file_chunks,
    import_faults,
    imports,
    invitations,
    votes,
    webhook_deliveries,
)
from app.errors import BadInputError, ConflictError
from app.naming.pseudonyms import STORED, base32
from app.naming.service import naming_of

log = structlog.get_logger()

_WITHDRAWN = "the file held keys that have changed; export again"

_CLEAR_METADATA = text("UPDATE votes SET metadata = NULL WHERE annotator_id = ANY(:erased) AND metadata IS NOT NULL")
_REWRITE = text(
    """
    UPDATE annotators SET key = fresh.key FROM unnest(CAST(:ids AS int[]), CAST(:keys AS text[])) AS fresh(id, key)
    WHERE annotators.id = fresh.id
    """
)


def erase_annotator(conn: Connection, reference: str, *, reason: str, erased_by: str) -> Erasure:
    """Cut the link between an annotator's votes and the person, for good; scores and standings stay as they are.

    A random key replaces the key. The votes' metadata and the annotator's notes are cleared, and every other place
    that could name the person: errors of imports, tokens, messages to webhooks, finished exports. Later votes under
    the old key belong to a new annotator. Erasing again clears what came in meanwhile.

    Raises NotFoundError.
    Raises BadInputError: the reason has the annotator's key, as it is stored or as the caller gave it.
    """
    found = lock_annotator(conn, reference)
    named = {found.annotator, reference} - {str(found.id)}  # every key that names the annotator
    if any(re.search(rf"(?<!\w){re.escape(key)}(?!\w)", reason) for key in named):
        raise BadInputError.at("/reason", "must not have the annotator's key: the audit log keeps it for ever")
    if not found.erased_at:
        _forget(conn, found, named)
    clear_metadata_of_erased(conn)
    log.info("annotator_erased", annotator=str(found.id), erased_by=erased_by)
    audit.record(conn, actor=erased_by, action="annotator.erase", subject=str(found.id), detail={"reason": reason})
    return Erasure.model_validate(find_annotator(conn, str(found.id)), from_attributes=True)


def _forget(conn: Connection, found: FoundAnnotator, named: set[str]) -> None:
    """Clear the annotator's key, under all its names, and the annotator's notes from every table."""
    replacement, own, now = f"erased_{base32(secrets.token_bytes(32))}", found.annotator_id, func.now()
    conn.execute(
        update(annotators).where(annotators.c.id == own).values(key=replacement, erased_at=func.clock_timestamp())
    )
    # The tokens of open battles would add votes of the person to the erased annotator.
    c = battles.c
    open_ones = (c.annotator_id == own, c.vote_id.is_(None), c.expires_at > now)
    conn.execute(update(battles).where(*open_ones).values(expires_at=now))
    # And so would the annotator's links.
    links = (invitations.c.annotator_id == own, invitations.c.revoked_at.is_(None))
    conn.execute(update(invitations).where(*links).values(revoked_at=now))
    conn.execute(update(appeals).where(appeals.c.annotator_id == own).values(note="erased"))
    # Errors of imports could name the annotator: those with a key, and those of files with the annotator's votes.
    files = select(votes.c.import_id).where(votes.c.annotator_id == own, votes.c.import_id.is_not(None))
    quoted = [func.strpos(import_faults.c.detail, key) > 0 for key in named]
    conn.execute(delete(import_faults).where(or_(import_faults.c.import_id.in_(files), *quoted)))
    quoted = [func.strpos(imports.c.detail, key) > 0 for key in named]
    conn.execute(update(imports).where(or_(*quoted)).values(detail="erased"))
    _delete_tokens(conn, sorted(named))
    payload, new = webhook_deliveries.c.payload, json.dumps(replacement)
    for old in {json.dumps(found.annotator, ensure_ascii=ascii_only) for ascii_only in (True, False)}:
        hidden = update(webhook_deliveries).where(func.strpos(payload, old) > 0)
        conn.execute(hidden.values(payload=func.replace(payload, old, new)))
    _withdraw_exports(conn)


def pseudonymise(conn: Connection, *, done_by: str) -> int:
    """Replace all raw keys on record by pseudonyms, in the caller's transaction; return how many there were.

    Tokens for raw keys, errors of imports and finished exports are deleted, because they could hold raw keys. No votes
    may come in meanwhile. Running it again replaces the raw keys that are left.

    Raises BadInputError: no secret is set.
    Raises ConflictError: an annotator is on record under the raw key and under the pseudonym too.
    """
    naming = naming_of(conn)
    if naming.pseudonyms is None:
        raise BadInputError("STABLE_ARENA_PSEUDONYM_KEY is not set: pseudonyms cannot be made without it")
    conn.execute(text("LOCK TABLE annotators IN SHARE ROW EXCLUSIVE MODE"))  # none is added until the end
    c = annotators.c
    raw = conn.execute(select(c.id, c.key).where(c.key.op("!~")(STORED)).order_by(c.id)).all()
    if not raw:
        return 0
    fresh = [naming.stored_keys(key)[0] for _, key in raw]
    taken = conn.execute(select(func.count()).select_from(annotators).where(c.key == func.any(fresh))).scalar_one()
    if taken:
        raise ConflictError(
            f"annotators on record under both their raw key and their pseudonym: {taken:,}; votes cannot move from one "
            "to the other: erase one of the two"
        )
    conn.execute(_REWRITE, {"ids": [number for number, _ in raw], "keys": fresh})
    conn.execute(delete(import_faults))  # they may quote rows, and so may the reason of a failed import
    conn.execute(update(imports).where(func.strpos(imports.c.detail, "unknown verdicts") > 0).values(detail="erased"))
    _delete_tokens(conn, [key for _, key in raw])
    _withdraw_exports(conn)
    audit.record(conn, actor=done_by, action="annotators.pseudonymise", subject="all", detail={"annotators": len(raw)})
    return len(raw)


def clear_metadata_of_erased(conn: Connection) -> int:
    """Clear the metadata of every erased annotator's votes, which may hold identifiers; return how many votes had any.

    Another replica may have recorded votes under an erased key for some seconds after the erasure. So this is done for
    all erased annotators, at every erasure and every publication.
    """
    # In two statements: a join reads every vote where the planner does not know yet how few annotators are erased.
    erased = conn.execute(select(annotators.c.id).where(annotators.c.erased_at.is_not(None))).scalars().all()
    return conn.execute(_CLEAR_METADATA, {"erased": erased}).rowcount if erased else 0


def _delete_tokens(conn: Connection, keys: Sequence[str]) -> None:
    statement = text("DELETE FROM ingest_tokens WHERE annotator = ANY(:keys)")
    conn.execute(statement, {"keys": list(keys)})


def _withdraw_exports(conn: Connection) -> None:
    """Delete exported files that hold annotators' keys; their exports stay on record, as failed."""
    what = exports.c.what.in_(("votes", "annotators"))
    begun = exports.c.state != "queued"  # a waiting export reads the new keys
    ids = select(exports.c.id).where(what, begun)
    conn.execute(delete(file_chunks).where(file_chunks.c.file_id.in_(ids)))
    ended = {"finished_at": func.coalesce(exports.c.finished_at, func.clock_timestamp())}
    conn.execute(update(exports).where(what, begun).values(state="failed", detail=_WITHDRAWN, bytes=None, **ended))
