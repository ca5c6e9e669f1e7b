"""Switching pseudonyms on over a database that holds raw keys."""

from sqlalchemy import Connection

from app.annotators.erasure import queries as store
from app.audit import service as audit
from app.errors import BadInputError, ConflictError
from app.naming.service import naming_of


def pseudonymise(conn: Connection, *, done_by: str) -> int:
    """Put pseudonyms in the place of all raw keys on record, in the caller's transaction; return how many there were.

    Killed half-way nothing has happened; run again it does what is left, which may be nothing. Tokens that name raw
    keys, and what else could hold them, go: faults of imports and finished exports. Nobody may vote meanwhile.

    Raises
    ------
    BadInputError
        No secret is set.
    ConflictError
        Some annotator is on record both under the raw key and under the pseudonym.
    """
    naming = naming_of(conn)
    if naming.pseudonyms is None:
        raise BadInputError("STABLE_ARENA_PSEUDONYM_KEY is not set: there is nothing to make pseudonyms with")
    store.lock_annotators(conn)
    raw = store.raw_keys(conn)
    if not raw:
        return 0
    fresh = [(number, naming.stored_keys(key)[0]) for number, key in raw]
    if taken := store.taken_keys(conn, [key for _, key in fresh]):
        raise ConflictError(
            f"{taken:,} annotators are on record under the raw key and, from votes taken since, under the pseudonym "
            "too; votes cannot change hands: erase one of the two of each"
        )
    store.rewrite_keys(conn, fresh)
    store.delete_all_import_faults(conn)
    store.delete_tokens(conn, [key for _, key in raw])
    store.withdraw_exports(conn)
    audit.record(conn, actor=done_by, action="annotators.pseudonymise", subject="all", detail={"annotators": len(raw)})
    return len(raw)
