"""Sessions of browsers: opened with an API key or a one-time link, ended by signing out, by time, or with the key."""

import secrets
from contextlib import suppress
from datetime import timedelta
from uuid import UUID

from sqlalchemy import Connection

from app.audit import service as audit
from app.auth.callers import Caller
from app.auth.keys import authenticate, lock_key
from app.auth.oidc.provider import Person
from app.auth.queries import transaction_time
from app.auth.secrets import digest
from app.auth.sessions import queries as store
from app.auth.sessions.schemas import Lifetimes, Session, SignedIn
from app.auth.tokens import is_token
from app.database.engine import Database
from app.database.ids import new_id
from app.errors import (
    BadInputError,
    ConflictError,
    FieldError,
    NotAuthenticatedError,
    NotFoundError,
    ScopeMissingError,
    UnavailableError,
)

SIGN_IN_PATH = "/console/sign-in"
LONGEST_LINK = timedelta(hours=1)
_RANDOM_BYTES = 32
_SHOWN_OF_BROWSER = 200
_READERS = ("read", "review:read", "review")


def sign_in(conn: Connection, key: str, lifetimes: Lifetimes, *, browser: str) -> SignedIn:
    """Open a session with an API key.

    Raises NotAuthenticatedError: the key is not valid.
    Raises ScopeMissingError: it is a token, or a key that may only send votes: no page is for it.
    """
    if is_token(key):
        raise ScopeMissingError("an ingest token may only post votes: sign in with an API key")
    return _open(conn, authenticate(conn, key), lifetimes, browser=browser, by="key")


def sign_in_by_link(conn: Connection, secret: str, lifetimes: Lifetimes, *, browser: str) -> SignedIn:
    """Open a session with the secret of a one-time link, which works no more after that.

    Raises NotAuthenticatedError: the link is unknown, used or too old, or its key is no longer valid.
    """
    caller = find_link(conn, secret)
    if not store.use_link(conn, digest(secret)):
        raise _dead_link()
    return _open(conn, caller, lifetimes, browser=browser, by="link")


def sign_in_person(conn: Connection, person: Person, lifetimes: Lifetimes, *, browser: str) -> SignedIn:
    """Open a session for a person that a provider signed in. What it allows was decided there, and holds to its end."""
    return _open(conn, Caller(None, person.name, person.scopes), lifetimes, browser=browser, by="provider")


def find_link(conn: Connection, secret: str) -> Caller:
    """Return the caller that a one-time link signs in, without using the link. Raises NotAuthenticatedError."""
    row = store.find_link(conn, digest(secret))
    if row is None:
        raise _dead_link()
    return Caller(row["id"], row["name"], frozenset(row["scopes"]), row["requests_per_minute"])


def make_link(conn: Connection, prefix_or_id: str, *, lifetime: timedelta, actor: str) -> str:
    """Add a one-time sign-in link for a key and return its secret, which cannot be shown again.

    Raises NotFoundError: no key has this prefix or id.
    Raises ConflictError: the key is revoked or expired.
    Raises ScopeMissingError: the key may only send votes.
    Raises BadInputError: the lifetime is out of range.
    """
    if not timedelta(0) < lifetime <= LONGEST_LINK:
        error = FieldError("/minutes", f"must be between 1 and {int(LONGEST_LINK.total_seconds()) // 60}")
        raise BadInputError("the link is not valid", (error,))
    key = lock_key(conn, prefix_or_id)
    if not key.works_at(transaction_time(conn)):
        raise ConflictError(f"the key {key.prefix} no longer works")
    _require_pages(frozenset(key.scopes))
    secret, link_id = secrets.token_urlsafe(_RANDOM_BYTES), new_id()
    store.add_link(conn, {"id": link_id, "api_key_id": key.id, "secret_hash": digest(secret)}, lifetime)
    detail = {"link": str(link_id), "name": key.name, "seconds": int(lifetime.total_seconds())}
    audit.record(conn, actor=actor, action="session.link", subject=str(key.id), detail=detail)
    return secret


def sign_in_address(base: str, secret: str) -> str:
    """Return the address of a one-time sign-in link, below the service's own."""
    return f"{base.rstrip('/')}{SIGN_IN_PATH}?ticket={secret}"


def find_session(database: Database, secret: str, lifetimes: Lifetimes) -> SignedIn | None:
    """Return the session with this secret, None if it has ended, and note the use, about once a minute."""
    with database.read() as conn:
        row = store.find_session(conn, digest(secret), idle=lifetimes.idle)
    if row is None:
        return None
    if row["noted_long_ago"]:
        with suppress(UnavailableError), database.begin() as conn:  # a read-only database can still be read
            store.note_use(conn, row["session_id"], idle=lifetimes.idle)
    caller = Caller(row["api_key_id"], row["name"], frozenset(row["scopes"]), row["requests_per_minute"])
    return SignedIn(row["session_id"], caller, secret)


def list_sessions(conn: Connection, caller: Caller) -> list[Session]:
    """Return the caller's sessions; an admin sees all."""
    rows = store.list_sessions(conn, None if caller.may("admin") else caller)
    return [Session.model_validate(dict(row)) for row in rows]


def end_session(conn: Connection, session_id: UUID, caller: Caller) -> None:
    """End a session of the caller; an admin may end any. Raises NotFoundError."""
    found = next((one for one in list_sessions(conn, caller) if one.id == session_id), None)
    if found is None or not store.delete_session(conn, session_id):
        raise NotFoundError("there is no such session")
    detail = {"name": found.name}
    audit.record(conn, actor=caller.name, action="session.end", subject=str(session_id), detail=detail)


def _open(conn: Connection, caller: Caller, lifetimes: Lifetimes, *, browser: str, by: str) -> SignedIn:
    _require_pages(caller.scopes)
    store.purge_ended(conn)
    secret, session_id = secrets.token_urlsafe(_RANDOM_BYTES), new_id()
    person = {} if caller.key_id else {"name": caller.name, "scopes": sorted(caller.scopes)}
    values = {
        "id": session_id,
        "api_key_id": caller.key_id,
        **person,
        "secret_hash": digest(secret),
        "browser": browser.replace("\x00", "")[:_SHOWN_OF_BROWSER],
    }
    store.add_session(conn, values, idle=lifetimes.idle, longest=lifetimes.longest)
    detail = {"key": caller.key_id, "by": by}
    audit.record(conn, actor=caller.name, action="session.start", subject=str(session_id), detail=detail)
    return SignedIn(session_id, caller, secret)


def _require_pages(scopes: frozenset[str]) -> None:
    """Refuse a key for which there is no page."""
    if scopes.isdisjoint((*_READERS, "admin")):
        raise ScopeMissingError(f"this key may only send votes; pages need one of {', '.join((*_READERS, 'admin'))}")


def _dead_link() -> NotAuthenticatedError:
    return NotAuthenticatedError("this sign-in link was used already, is too old, or its key no longer works")
