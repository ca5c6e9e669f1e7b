"""Sessions and one-time links on the database: who gets one, and when it ends."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import text

from app.audit.service import list_entries
from app.auth.keys import authenticate, create_key, revoke_key, rotate_key
from app.auth.sessions.csrf import is_token_of, make_token
from app.auth.sessions.schemas import Lifetimes, SignedIn
from app.auth.sessions.service import (
    end_session,
    find_link,
    find_session,
    list_sessions,
    make_link,
    sign_in,
    sign_in_by_link,
)
from app.auth.tokens import create_token
from app.database.engine import Database
from app.errors import BadInputError, ConflictError, NotAuthenticatedError, NotFoundError, ScopeMissingError

LIFETIMES = Lifetimes(idle=timedelta(minutes=60), longest=timedelta(hours=12))
Open = Callable[..., SignedIn]


@pytest.fixture
def opened(database: Database, keys: dict[str, str]) -> Open:
    """Open a session with the key of a scope."""

    def open_session(scope: str = "review") -> SignedIn:
        with database.begin() as conn:
            return sign_in(conn, keys[scope], LIFETIMES, browser="a browser")

    return open_session


def lasts(database: Database, session: SignedIn) -> bool:
    return find_session(database, session.secret, LIFETIMES) is not None


def execute(database: Database, statement: str, **values: Any) -> Any:
    with database.begin() as conn:
        return conn.execute(text(statement), values)


def test_a_session_acts_for_its_key(database: Database, opened: Open, keys: dict[str, str]) -> None:
    session = opened()
    found = find_session(database, session.secret, LIFETIMES)
    assert found == session
    assert (session.caller.name, session.caller.scopes) == ("review key", {"review"})
    assert find_session(database, session.secret + "x", LIFETIMES) is None
    stored = execute(database, "SELECT sessions::text FROM sessions").scalar_one()
    assert session.secret not in stored
    with database.begin() as conn:
        entry = list_entries(conn, limit=1)[0]
        assert (entry.actor, entry.action, entry.subject) == ("review key", "session.start", str(session.session_id))


def test_a_session_of_a_minute_lasts_while_it_is_used(database: Database, opened: Open) -> None:
    session, short = opened(), Lifetimes(timedelta(minutes=1), LIFETIMES.longest)
    age = "UPDATE sessions SET last_used_at = now() - interval '40 seconds', idle_until = now() + interval '20 seconds'"
    execute(database, age)
    assert find_session(database, session.secret, short) is not None
    left = execute(database, "SELECT idle_until - now() FROM sessions").scalar_one()
    assert left > timedelta(seconds=30)


@pytest.mark.parametrize("column", ["idle_until", "expires_at"])
def test_a_session_ends_with_its_time(database: Database, opened: Open, column: str) -> None:
    session, other = opened(), opened()
    execute(database, f"UPDATE sessions SET {column} = now() WHERE id = :id", id=session.session_id)
    assert [lasts(database, one) for one in (session, other)] == [False, True]
    opened()  # purges
    assert execute(database, "SELECT count(*) FROM sessions").scalar_one() == 2


def test_use_prolongs_a_session_but_not_for_ever(database: Database, opened: Open) -> None:
    session = opened()
    age = "UPDATE sessions SET last_used_at = now() - interval '2 minutes', idle_until = now() + interval '1 minute'"
    execute(database, age)
    assert lasts(database, session)
    left, longest = execute(database, "SELECT idle_until - now(), expires_at - now() FROM sessions").one()
    assert timedelta(minutes=59) < left <= timedelta(minutes=60)
    assert longest <= timedelta(hours=12)


@pytest.mark.parametrize("end", ["revoked", "expired", "replaced"])
def test_a_session_dies_with_its_key(database: Database, opened: Open, keys: dict[str, str], end: str) -> None:
    session, other = opened(), opened("admin")
    with database.begin() as conn:
        prefix, key_id = keys["review"].split("_")[1], session.caller.key_id
        if end == "revoked":
            revoke_key(conn, prefix)
        elif end == "replaced":
            rotate_key(conn, prefix, overlap=timedelta(0))
        else:
            conn.execute(text("UPDATE api_keys SET expires_at = now() WHERE id = :id"), {"id": key_id})
        link = make_link(conn, keys["admin"].split("_")[1], lifetime=timedelta(minutes=1), actor="a test")
        revoke_key(conn, keys["admin"].split("_")[1])
    assert not lasts(database, session)
    assert not lasts(database, other)
    with database.begin() as conn, pytest.raises(NotAuthenticatedError):
        sign_in_by_link(conn, link, LIFETIMES, browser="")


def test_who_gets_no_session(database: Database, keys: dict[str, str]) -> None:
    with database.begin() as conn:
        token = create_token(conn, authenticate(conn, keys["ingest"]), lifetime=timedelta(minutes=1)).token
        for secret in (keys["ingest"], token):
            with pytest.raises(ScopeMissingError):
                sign_in(conn, secret, LIFETIMES, browser="")
        with pytest.raises(NotAuthenticatedError):
            sign_in(conn, keys["admin"][:-1], LIFETIMES, browser="")
        assert conn.execute(text("SELECT count(*) FROM sessions")).scalar_one() == 0
        sign_in(conn, keys["read"], LIFETIMES, browser="x" * 500 + "\x00")


def test_a_link_signs_in_once(database: Database, keys: dict[str, str]) -> None:
    prefix = keys["admin"].split("_")[1]
    with database.begin() as conn:
        late = make_link(conn, prefix, lifetime=timedelta(minutes=5), actor="a test")
        conn.execute(text("UPDATE sign_in_links SET expires_at = now()"))
        link = make_link(conn, prefix, lifetime=timedelta(minutes=5), actor="a test")
        assert find_link(conn, link).name == "admin key"
        assert sign_in_by_link(conn, link, LIFETIMES, browser="").caller.scopes == {"admin"}
        for dead in (link, late, "made up"):
            with pytest.raises(NotAuthenticatedError):
                sign_in_by_link(conn, dead, LIFETIMES, browser="")
        assert [entry.action for entry in list_entries(conn, limit=2)] == ["session.start", "session.link"]


def test_links_that_are_refused(database: Database, keys: dict[str, str]) -> None:
    minute = timedelta(minutes=1)
    with database.begin() as conn:
        record, _ = create_key(conn, "over", ["admin"])
        revoke_key(conn, record.prefix)
        for error, key, lifetime in (
            (NotFoundError, "nothing", minute),
            (NotFoundError, str(uuid4()), minute),
            (ConflictError, record.prefix, minute),
            (ScopeMissingError, keys["ingest"].split("_")[1], minute),
            (BadInputError, keys["admin"].split("_")[1], timedelta(0)),
            (BadInputError, keys["admin"].split("_")[1], timedelta(hours=2)),
        ):
            with pytest.raises(error):
                make_link(conn, key, lifetime=lifetime, actor="a test")


def test_listing_and_ending_sessions(database: Database, opened: Open) -> None:
    mine, again, admin = opened(), opened(), opened("admin")
    with database.begin() as conn:
        assert {one.id for one in list_sessions(conn, mine.caller)} == {mine.session_id, again.session_id}
        assert len(list_sessions(conn, admin.caller)) == 3
        with pytest.raises(NotFoundError):
            end_session(conn, admin.session_id, mine.caller)
        end_session(conn, again.session_id, mine.caller)
        with pytest.raises(NotFoundError):
            end_session(conn, again.session_id, mine.caller)
        end_session(conn, mine.session_id, admin.caller)
        entry = list_entries(conn, limit=1)[0]
        assert (entry.actor, entry.action) == ("admin key", "session.end")
    assert [lasts(database, one) for one in (mine, again, admin)] == [False, False, True]


def test_a_form_s_token_fits_its_session_alone() -> None:
    first, second = make_token("a secret"), make_token("a secret")
    assert first != second
    assert is_token_of("a secret", first)
    assert is_token_of("a secret", second)
    for session, token in (
        ("another", first),
        ("a secret", ""),
        ("a secret", "."),
        ("a secret", first[:-1]),
        ("a secret", "é\ud800.x"),
    ):
        assert not is_token_of(session, token)
