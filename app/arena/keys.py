import binascii
import hashlib
import hmac
import re
import secrets
import string
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, get_args
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from app.arena.names import name_fault
from app.errors import BadInputError, Fault, NotFoundError, StableArenaError
from app.store import keys as store
from app.store.ids import new_id

Scope = Literal["ingest", "read", "review", "admin"]
SCOPES: tuple[Scope, ...] = get_args(Scope)

_ALPHABET = string.digits + string.ascii_letters
_PREFIX_LENGTH = 8
_RANDOM_LENGTH = 22  # 131 bits at log2(62) each
_CHECKSUM_LENGTH = 6  # 62^6 holds every CRC-32
_FORM = re.compile(rf"sa_([0-9A-Za-z]{{{_PREFIX_LENGTH}}})_[0-9A-Za-z]{{{_RANDOM_LENGTH + _CHECKSUM_LENGTH}}}")


class NotAuthenticatedError(StableArenaError):
    """The caller has shown no valid key."""

    code = "not-authenticated"
    title = "A valid API key is needed"


class ScopeMissingError(StableArenaError):
    """The caller's key is valid but does not allow this."""

    code = "scope-missing"
    title = "The API key lacks a scope"


@dataclass(frozen=True)
class Caller:
    """Who asks: a key by its name and scopes, or nobody (`key_id` None) on the machine itself."""

    key_id: UUID | None
    name: str
    scopes: frozenset[str]

    def may(self, scope: Scope) -> bool:
        """Whether the caller has the scope; admin implies every other."""
        return scope in self.scopes or "admin" in self.scopes


@dataclass(frozen=True)
class KeyRecord:
    """What is on record about a key; the secret is not."""

    id: UUID
    name: str
    prefix: str
    scopes: tuple[str, ...]
    created_at: datetime
    revoked_at: datetime | None


def create_key(conn: Connection, name: str, scopes: Iterable[str]) -> tuple[KeyRecord, str]:
    """Add a key and return its record and the key itself, which nothing can show again.

    A key is `sa_PREFIX_SECRET`: the prefix names it in lists and logs; the secret is 131 random bits and a
    checksum by which a mistyped key is told from a wrong one without asking the database.

    Raises
    ------
    BadInputError
        The name is not a name, or a scope is unknown or missing.
    """
    wanted = sorted(set(scopes))
    _check(name, wanted)
    while True:
        prefix, random = _random(_PREFIX_LENGTH), _random(_RANDOM_LENGTH)
        secret = f"sa_{prefix}_{random}{_checksum(prefix + random)}"
        row = store.add_key(
            conn,
            {"id": new_id(), "name": name, "prefix": prefix, "secret_hash": digest(secret), "scopes": wanted},
        )
        if row is not None:
            return _record(row), secret


def list_keys(conn: Connection) -> list[KeyRecord]:
    """Return every key on record, revoked ones too, oldest first."""
    return [_record(row) for row in store.read_keys(conn)]


def revoke_key(conn: Connection, prefix_or_id: str) -> KeyRecord:
    """Make a key worthless from now on; a key that is revoked already stays as it is.

    Raises
    ------
    NotFoundError
        No key has this prefix or id.
    """
    try:
        row = store.revoke(conn, key_id=UUID(prefix_or_id))
    except ValueError:
        row = store.revoke(conn, prefix=prefix_or_id.removeprefix("sa_"))
    if row is None:
        raise NotFoundError("no key has this prefix or id")
    return _record(row)


def authenticate(conn: Connection, secret: str) -> Caller:
    """Return who holds this key.

    Raises
    ------
    NotAuthenticatedError
        It is not a key, is mistyped, unknown or revoked.
    """
    form = _FORM.fullmatch(secret)
    if form is None:
        raise NotAuthenticatedError("this is not an API key: keys look like sa_PREFIX_SECRET")
    prefix, body = form[1], secret.rpartition("_")[2]
    if _checksum(prefix + body[:_RANDOM_LENGTH]) != body[_RANDOM_LENGTH:]:
        raise NotAuthenticatedError("the API key is mistyped or cut short")
    row = store.find_valid_key(conn, prefix)
    # The hash is compared also where there is no such key, so that both answers take equally long.
    expected = row["secret_hash"] if row is not None else b""
    if not hmac.compare_digest(digest(secret), bytes(expected)) or row is None:
        raise NotAuthenticatedError("the API key is unknown or revoked")
    return Caller(row["id"], row["name"], frozenset(row["scopes"]))


def digest(secret: str) -> bytes:
    """Return what stands for a key at rest; 131 random bits need no slow hash."""
    return hashlib.sha256(secret.encode()).digest()


def _check(name: str, scopes: list[str]) -> None:
    faults = []
    if (fault := name_fault(name)) is not None:
        faults.append(Fault("/name", fault))
    unknown = [scope for scope in scopes if scope not in SCOPES]
    if unknown or not scopes:
        faults.append(Fault("/scopes", f"must be one or more of {', '.join(SCOPES)}"))
    if faults:
        raise BadInputError("no key can be made of this", tuple(faults))


def _random(length: int) -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(length))


def _checksum(body: str) -> str:
    value, digits = binascii.crc32(body.encode()), ""
    for _ in range(_CHECKSUM_LENGTH):
        value, digit = divmod(value, len(_ALPHABET))
        digits = _ALPHABET[digit] + digits
    return digits


def _record(row: RowMapping) -> KeyRecord:
    return KeyRecord(row["id"], row["name"], row["prefix"], tuple(row["scopes"]), row["created_at"], row["revoked_at"])
