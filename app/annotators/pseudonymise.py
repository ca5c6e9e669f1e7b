"""Replaces raw keys by pseudonyms in a database that was used without them."""

from sqlalchemy import Connection

from app.annotators.erasure import queries as store
from app.audit import service as audit
from app.errors import BadInputError, ConflictError
from app.naming.service import naming_of


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
