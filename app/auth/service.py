import hmac
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, get_args
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from app.audit import service as audit
from app.auth import queries as store
from app.auth.key_secrets import digest, is_mistyped, make_secret, prefix_of
from app.database.ids import new_id
from app.database.timestamps import LATEST
from app.errors import BadInputError, ConflictError, FieldError, NotAuthenticatedError, NotFoundError
from app.naming.names import name_error

Scope = Literal["ingest", "read", "review", "admin"]
SCOPES: tuple[Scope, ...] = get_args(Scope)

MAX_OVERLAP = timedelta(days=30)
COMMAND_LINE = "command line"


@dataclass(frozen=True)
class AnnotatorBinding:
    """The one annotator whom a token may vote for, known only as a hash: raw annotators' keys are not stored."""

    key: bytes
    mac: str

    @classmethod
    def to(cls, annotator: str, secret: str) -> "AnnotatorBinding":
        """Bind to an annotator; without the token's secret nothing tells whom."""
        return cls(secret.encode(), hmac.digest(secret.encode(), annotator.encode(), "sha256").hex())

    def allows(self, annotator: str) -> bool:
        """Whether this is the annotator."""
        mac = hmac.digest(self.key, annotator.encode("utf-8", "surrogatepass"), "sha256").hex()
        return hmac.compare_digest(mac, self.mac)


@dataclass(frozen=True)
class Caller:
    """Who asks: a key by its name and scopes, or nobody (`key_id` None) on the machine itself.

    Attributes
    ----------
    requests_per_minute : of this key alone; None for what the service is set to
    token_id : where it is a token of that key that asks, good for nothing but posting votes
    binding : the only annotator whom the token may vote for; None for any
    """

    key_id: UUID | None
    name: str
    scopes: frozenset[str]
    requests_per_minute: int | None = None
    token_id: UUID | None = None
    binding: AnnotatorBinding | None = None

    def may(self, scope: Scope) -> bool:
        """Whether the caller has the scope; admin implies every other."""
        return scope in self.scopes or "admin" in self.scopes

    def may_vote_as(self, annotator: str) -> bool:
        """Whether the caller may send votes of this annotator."""
        return self.binding is None or self.binding.allows(annotator)


@dataclass(frozen=True)
class KeyRecord:
    """What is on record about a key; the secret is not."""

    id: UUID
    name: str
    prefix: str
    scopes: tuple[str, ...]
    created_at: datetime
    revoked_at: datetime | None
    expires_at: datetime | None
    replaced_by: UUID | None
    requests_per_minute: int | None


def create_key(
    conn: Connection,
    name: str,
    scopes: Iterable[str],
    *,
    expires_at: datetime | None = None,
    requests_per_minute: int | None = None,
    actor: str = COMMAND_LINE,
) -> tuple[KeyRecord, str]:
    """Add a key and return its record and the key itself, which nothing can show again.

    Raises
    ------
    BadInputError
        The name is not a name, a scope is unknown or missing, or the key would expire before it is used.
    """
    wanted = sorted(set(scopes))
    errors = _field_errors(name, wanted)
    if expires_at is not None and expires_at <= store.database_time(conn):
        errors.append(FieldError("/expires_at", "must lie in the future"))
    if expires_at is not None and expires_at > LATEST:
        errors.append(FieldError("/expires_at", "must lie before the end of the year 9999; null is for never"))
    if requests_per_minute is not None and requests_per_minute < 1:
        errors.append(FieldError("/requests_per_minute", "must be at least 1"))
    if errors:
        raise BadInputError("no key can be made of this", tuple(errors))
    record, secret = _add(conn, name, wanted, expires_at, requests_per_minute)
    detail = {"name": name, "scopes": wanted, "expires_at": expires_at}
    audit.record(conn, actor=actor, action="key.create", subject=str(record.id), detail=detail)
    return record, secret


def list_keys(conn: Connection) -> list[KeyRecord]:
    """Return every key on record, revoked ones too, oldest first."""
    return [_record(row) for row in store.read_keys(conn)]


def revoke_key(conn: Connection, prefix_or_id: str, *, actor: str = COMMAND_LINE) -> KeyRecord:
    """Make a key, and its tokens, worthless from now on; a key that is revoked already stays as it is.

    Raises
    ------
    NotFoundError
        No key has this prefix or id.
    """
    key = _lock(conn, prefix_or_id)
    if key.revoked_at is not None:
        return key
    row = store.revoke(conn, key.id)
    audit.record(conn, actor=actor, action="key.revoke", subject=str(key.id), detail={"name": key.name})
    return _record(row)


def rotate_key(
    conn: Connection, prefix_or_id: str, *, overlap: timedelta, actor: str = COMMAND_LINE
) -> tuple[KeyRecord, str]:
    """Put a new key in the place of one, which works for `overlap` more; return the new one's record and secret.

    The new key has the same name, scopes and limit and, where the old one had a term, a term of the same length.

    Raises
    ------
    NotFoundError
        No key has this prefix or id.
    ConflictError
        The key is revoked, expired, or has been replaced already.
    BadInputError
        The overlap is negative or longer than 30 days.
    """
    if not timedelta(0) <= overlap <= MAX_OVERLAP:
        error = FieldError("/overlap_seconds", f"must be between 0 and {int(MAX_OVERLAP.total_seconds())}")
        raise BadInputError("the key cannot be rotated like this", (error,))
    old, now = _lock(conn, prefix_or_id), store.database_time(conn)
    expired = old.expires_at is not None and old.expires_at <= now
    if old.revoked_at is not None or old.replaced_by is not None or expired:
        state = "revoked" if old.revoked_at is not None else "expired" if expired else "replaced already"
        raise ConflictError(f"the key {old.prefix} is {state}")
    expires_at = None if old.expires_at is None else now + min(old.expires_at - old.created_at, LATEST - now)
    record, secret = _add(conn, old.name, list(old.scopes), expires_at, old.requests_per_minute)
    ends = now + overlap if old.expires_at is None else min(now + overlap, old.expires_at)
    store.replace(conn, old.id, record.id, ends)
    detail = {"name": old.name, "replaced_by": str(record.id), "old_expires_at": ends}
    audit.record(conn, actor=actor, action="key.rotate", subject=str(old.id), detail=detail)
    return record, secret


def authenticate(conn: Connection, secret: str) -> Caller:
    """Return who holds this key.

    Raises
    ------
    NotAuthenticatedError
        It is not a key, is mistyped, unknown, expired or revoked.
    """
    row = check_secret(secret, lambda prefix: store.find_valid_key(conn, prefix))
    return Caller(row["id"], row["name"], frozenset(row["scopes"]), row["requests_per_minute"])


def check_secret(secret: str, find: Callable[[str], RowMapping | None]) -> RowMapping:
    """Return the row that `find` returns for the secret's prefix, if it is this secret's: its `secret_hash` says so.

    Raises
    ------
    NotAuthenticatedError
    """
    prefix = prefix_of(secret)
    if prefix is None:
        raise NotAuthenticatedError("this is not an API key: keys look like sa_PREFIX_SECRET")
    if is_mistyped(secret):
        raise NotAuthenticatedError("the API key is mistyped or cut short")
    row = find(prefix)
    # The hash is compared also where there is no such key, so that both answers take equally long.
    expected = row["secret_hash"] if row is not None else b""
    if not hmac.compare_digest(digest(secret), bytes(expected)) or row is None:
        raise NotAuthenticatedError("the API key is unknown, expired or revoked")
    return row


def _field_errors(name: str, scopes: list[str]) -> list[FieldError]:
    errors = []
    if (error := name_error(name)) is not None:
        errors.append(FieldError("/name", error))
    if not scopes or any(scope not in SCOPES for scope in scopes):
        errors.append(FieldError("/scopes", f"must be one or more of {', '.join(SCOPES)}"))
    return errors


def _add(
    conn: Connection, name: str, scopes: list[str], expires_at: datetime | None, requests_per_minute: int | None
) -> tuple[KeyRecord, str]:
    values = {"name": name, "scopes": scopes, "expires_at": expires_at, "requests_per_minute": requests_per_minute}
    while True:
        prefix, secret = make_secret("sa")
        row = store.add_key(conn, {"id": new_id(), "prefix": prefix, "secret_hash": digest(secret), **values})
        if row is not None:
            return _record(row), secret


def _lock(conn: Connection, prefix_or_id: str) -> KeyRecord:
    try:
        row = store.lock_key(conn, key_id=UUID(prefix_or_id))
    except ValueError:
        prefix = prefix_or_id.removeprefix("sa_")
        row = store.lock_key(conn, prefix=prefix) if prefix.isascii() and prefix.isalnum() else None
    if row is None:
        raise NotFoundError("no key has this prefix or id")
    return _record(row)


def _record(row: RowMapping) -> KeyRecord:
    return KeyRecord(**{**row, "scopes": tuple(row["scopes"])})
