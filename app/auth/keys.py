from collections.abc import Iterable
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import Connection, RowMapping, func

from app.audit import service as audit
from app.auth import queries as store
from app.auth.callers import SCOPES, Caller
from app.auth.schemas import MAX_OVERLAP, MAX_PER_MINUTE, Key
from app.auth.secrets import check_secret, digest, make_secret
from app.database.ids import new_id
from app.database.timestamps import LATEST
from app.errors import BadInputError, ConflictError, FieldError, NotFoundError
from app.naming.names import name_error

COMMAND_LINE = "command line"


def create_key(
    conn: Connection,
    name: str,
    scopes: Iterable[str],
    *,
    expires_at: datetime | None = None,
    requests_per_minute: int | None = None,
    actor: str = COMMAND_LINE,
) -> tuple[Key, str]:
    """Add a key and return its record and the key itself, which is not stored and cannot be shown again.

    Raises BadInputError: the name, a scope, the time or the limit is not valid.
    """
    wanted = sorted(set(scopes))
    errors = []
    if (error := name_error(name)) is not None:
        errors.append(FieldError("/name", error))
    if not wanted or not set(wanted) <= set(SCOPES):
        errors.append(FieldError("/scopes", f"must be one or more of {', '.join(SCOPES)}"))
    if expires_at is not None and expires_at <= store.transaction_time(conn):
        errors.append(FieldError("/expires_at", "must be in the future"))
    if expires_at is not None and expires_at > LATEST:
        errors.append(FieldError("/expires_at", "must be before the end of the year 9999; null means never"))
    if requests_per_minute is not None and not 1 <= requests_per_minute <= MAX_PER_MINUTE:
        errors.append(FieldError("/requests_per_minute", f"must be from 1 to {MAX_PER_MINUTE:,}"))
    if errors:
        raise BadInputError("the key is not valid", tuple(errors))
    record, secret = _add(conn, name, wanted, expires_at, requests_per_minute)
    detail = {"name": name, "scopes": wanted, "expires_at": expires_at}
    audit.record(conn, actor=actor, action="key.create", subject=str(record.id), detail=detail)
    return record, secret


def list_keys(conn: Connection) -> list[Key]:
    """Return every key on record, revoked ones too, oldest first."""
    return [_record(row) for row in store.read_keys(conn)]


def revoke_key(conn: Connection, prefix_or_id: str, *, actor: str = COMMAND_LINE) -> Key:
    """Revoke a key and its tokens. A key that is revoked already stays as it is.

    Raises NotFoundError: no key has this prefix or id.
    """
    key = lock_key(conn, prefix_or_id)
    if key.revoked_at is not None:
        return key
    row = store.change_key(conn, key.id, revoked_at=func.now())
    audit.record(conn, actor=actor, action="key.revoke", subject=str(key.id), detail={"name": key.name})
    return _record(row)


def rotate_key(
    conn: Connection, prefix_or_id: str, *, overlap: timedelta, actor: str = COMMAND_LINE
) -> tuple[Key, str]:
    """Replace a key by a new one and return the new key's record and secret.

    The old key works for `overlap` more. The new key has the same name, scopes and limit. If the old key had a
    lifetime, the new key has the same.

    Raises NotFoundError: no key has this prefix or id.
    Raises ConflictError: the key is revoked, expired, or has been replaced already.
    Raises BadInputError: the overlap is negative or longer than 30 days.
    """
    if not timedelta(0) <= overlap <= MAX_OVERLAP:
        error = FieldError("/overlap_seconds", f"must be between 0 and {int(MAX_OVERLAP.total_seconds())}")
        raise BadInputError("the overlap is not valid", (error,))
    old, now = lock_key(conn, prefix_or_id), store.transaction_time(conn)
    if old.replaced_by is not None or not old.works_at(now):
        state = "revoked" if old.revoked_at else "replaced already" if old.works_at(now) else "expired"
        raise ConflictError(f"the key {old.prefix} is {state}")
    expires_at = None if old.expires_at is None else now + min(old.expires_at - old.created_at, LATEST - now)
    record, secret = _add(conn, old.name, list(old.scopes), expires_at, old.requests_per_minute)
    ends = now + overlap if old.expires_at is None else min(now + overlap, old.expires_at)
    store.change_key(conn, old.id, replaced_by=record.id, expires_at=ends)
    detail = {"name": old.name, "replaced_by": str(record.id), "old_expires_at": ends}
    audit.record(conn, actor=actor, action="key.rotate", subject=str(old.id), detail=detail)
    return record, secret


def lock_key(conn: Connection, prefix_or_id: str) -> Key:
    """Return a key's record and lock it until the transaction ends.

    Raises NotFoundError: no key has this prefix or id.
    """
    try:
        row = store.lock_key(conn, key_id=UUID(prefix_or_id))
    except ValueError:
        prefix = prefix_or_id.removeprefix("sa_")
        row = store.lock_key(conn, prefix=prefix) if prefix.isascii() and prefix.isalnum() else None
    if row is None:
        raise NotFoundError("no key has this prefix or id")
    return _record(row)


def authenticate(conn: Connection, secret: str) -> Caller:
    """Return the holder of this key.

    Raises NotAuthenticatedError: it is not a key, or is mistyped, unknown, expired or revoked.
    """
    row = check_secret(secret, lambda prefix: store.find_valid_key(conn, prefix))
    return Caller(row["id"], row["name"], frozenset(row["scopes"]), row["requests_per_minute"])


def _add(
    conn: Connection, name: str, scopes: list[str], expires_at: datetime | None, requests_per_minute: int | None
) -> tuple[Key, str]:
    values = {"name": name, "scopes": scopes, "expires_at": expires_at, "requests_per_minute": requests_per_minute}
    while True:
        prefix, secret = make_secret("sa")
        row = store.add_key(conn, {"id": new_id(), "prefix": prefix, "secret_hash": digest(secret), **values})
        if row is not None:
            return _record(row), secret


def _record(row: RowMapping) -> Key:
    return Key.model_validate(dict(row))
