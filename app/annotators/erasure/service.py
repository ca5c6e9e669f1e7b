import json
import re
import secrets

import structlog
from sqlalchemy import Connection

from app.annotators.erasure import queries as store
from app.annotators.queries import lock_annotator
from app.annotators.schemas import Erasure, FoundAnnotator
from app.annotators.service import find_annotator
from app.audit import service as audit
from app.errors import BadInputError, ConflictError, FieldError
from app.naming.pseudonyms import base32
from app.naming.service import naming_of

log = structlog.get_logger()


def erase_annotator(conn: Connection, reference: str, *, reason: str, erased_by: str) -> Erasure:
    """Cut the link between an annotator's votes and the person, for good; scores and standings stay as they are.

    A random key replaces the key. The votes' metadata and the annotator's notes are cleared, and every other place
    that could name the person: errors of imports, tokens, messages to webhooks, finished exports. Later votes under
    the old key belong to a new annotator. Erasing again clears what came in meanwhile.

    Raises
    ------
    NotFoundError
    BadInputError
        The reason has the annotator's key, as it is stored or as the caller gave it.
    """
    found = find_annotator(conn, reference)
    lock_annotator(conn, found.annotator_id)
    found = find_annotator(conn, str(found.id))  # an erasure may have come in before the lock
    named = {found.annotator, reference} - {str(found.id)}  # every key that names the annotator
    if any(re.search(rf"(?<!\w){re.escape(key)}(?!\w)", reason) for key in named):
        error = FieldError("/reason", "must not have the annotator's key: the audit log keeps it for ever")
        raise BadInputError(f"{error.pointer} {error.detail}", (error,))
    if not found.erased_at:
        _forget(conn, found, named)
    store.clear_metadata_of_erased(conn)
    log.info("annotator_erased", annotator=str(found.id), erased_by=erased_by)
    audit.record(conn, actor=erased_by, action="annotator.erase", subject=str(found.id), detail={"reason": reason})
    erased = find_annotator(conn, str(found.id))
    assert erased.erased_at is not None  # noqa: S101  it has just been set
    return Erasure(id=erased.id, annotator=erased.annotator, erased_at=erased.erased_at)


def _forget(conn: Connection, found: FoundAnnotator, named: set[str]) -> None:
    replacement = f"erased_{base32(secrets.token_bytes(32))}"
    store.set_erased_key(conn, found.annotator_id, replacement)
    store.expire_battles(conn, found.annotator_id)
    store.clear_appeals(conn, found.annotator_id)
    store.delete_import_faults(conn, found.annotator_id, sorted(named))
    store.clear_import_details(conn, sorted(named))
    store.delete_tokens(conn, sorted(named))
    for ascii_only in (True, False):
        in_json = json.dumps(found.annotator, ensure_ascii=ascii_only)
        store.replace_in_deliveries(conn, in_json, json.dumps(replacement))
    store.withdraw_exports(conn)


def pseudonymise(conn: Connection, *, done_by: str) -> int:
    """Replace all raw keys on record by pseudonyms, in the caller's transaction; return how many there were.

    Tokens for raw keys, errors of imports and finished exports are deleted, because they could hold raw keys. No votes
    may come in meanwhile. Running it again replaces the raw keys that are left.

    Raises
    ------
    BadInputError
        No secret is set.
    ConflictError
        An annotator is on record under the raw key and under the pseudonym too.
    """
    naming = naming_of(conn)
    if naming.pseudonyms is None:
        raise BadInputError("STABLE_ARENA_PSEUDONYM_KEY is not set: pseudonyms cannot be made without it")
    store.lock_annotators(conn)
    raw = store.raw_keys(conn)
    if not raw:
        return 0
    fresh = [(number, naming.stored_keys(key)[0]) for number, key in raw]
    if taken := store.taken_keys(conn, [key for _, key in fresh]):
        raise ConflictError(
            f"annotators on record under both their raw key and their pseudonym: {taken:,}; votes cannot move from one "
            "to the other: erase one of the two"
        )
    store.rewrite_keys(conn, fresh)
    store.delete_all_import_faults(conn)
    store.delete_tokens(conn, [key for _, key in raw])
    store.withdraw_exports(conn)
    audit.record(conn, actor=done_by, action="annotators.pseudonymise", subject="all", detail={"annotators": len(raw)})
    return len(raw)
