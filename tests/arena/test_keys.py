import string

import pytest
from sqlalchemy import Connection, text

from app.arena.keys import (
    NotAuthenticatedError,
    authenticate,
    create_key,
    list_keys,
    revoke_key,
)
from app.errors import BadInputError, NotFoundError


def test_who_holds_a_key(connection: Connection) -> None:
    record, secret = create_key(connection, "front end", ["read", "ingest", "read"])
    assert record.scopes == ("ingest", "read")
    caller = authenticate(connection, secret)
    assert (caller.key_id, caller.name, caller.scopes) == (record.id, "front end", {"ingest", "read"})
    assert caller.may("read")
    assert not caller.may("review")
    assert not caller.may("admin")


def test_the_secret_is_nowhere(connection: Connection) -> None:
    _, secret = create_key(connection, "front end", ["admin"])
    row = connection.execute(text("SELECT k::text FROM api_keys k")).scalar_one()
    assert secret.split("_")[2] not in row


def test_keys_differ_and_look_alike(connection: Connection) -> None:
    secrets = {create_key(connection, "same name", ["read"])[1] for _ in range(20)}
    assert len(secrets) == 20
    for secret in secrets:
        start, prefix, rest = secret.split("_")
        assert (start, len(prefix), len(rest)) == ("sa", 8, 28)
        assert set(prefix + rest) <= set(string.ascii_letters + string.digits)


def test_every_typing_error_is_seen_without_asking_the_database(connection: Connection) -> None:
    _, secret = create_key(connection, "k", ["read"])
    for place in range(3, len(secret)):
        if secret[place] != "_":
            wrong = secret[:place] + ("x" if secret[place] != "x" else "y") + secret[place + 1 :]
            with pytest.raises(NotAuthenticatedError, match="mistyped"):
                authenticate(connection, wrong)


@pytest.mark.parametrize("form", ["", "sa_", "sb{}", "{} ", " {}", "{}\n", "{}0", "é" * 40, "\ud800"])
def test_what_is_no_key(connection: Connection, form: str) -> None:
    _, secret = create_key(connection, "k", ["read"])
    with pytest.raises(NotAuthenticatedError):
        authenticate(connection, form.replace("{}", secret[2:] if form.startswith("sb") else secret))


def test_a_key_with_another_s_prefix(connection: Connection) -> None:
    _, secret = create_key(connection, "k", ["read"])
    record, other = create_key(connection, "l", ["admin"])
    connection.execute(text("UPDATE api_keys SET prefix = 'away' WHERE id = :id"), {"id": record.id})
    connection.execute(text("UPDATE api_keys SET prefix = :p WHERE id <> :id"), {"id": record.id, "p": record.prefix})
    for one in (secret, other):
        with pytest.raises(NotAuthenticatedError, match="unknown or revoked"):
            authenticate(connection, one)


@pytest.mark.parametrize("by", ["prefix", "id", "sa_prefix"])
def test_revoking(connection: Connection, by: str) -> None:
    record, secret = create_key(connection, "k", ["read"])
    _, other = create_key(connection, "l", ["read"])
    named = {"prefix": record.prefix, "id": str(record.id), "sa_prefix": f"sa_{record.prefix}"}[by]
    revoked = revoke_key(connection, named)
    assert revoked.revoked_at is not None
    assert revoke_key(connection, named) == revoked
    with pytest.raises(NotAuthenticatedError, match="unknown or revoked"):
        authenticate(connection, secret)
    assert authenticate(connection, other).name == "l"
    assert {key.name: key.revoked_at is None for key in list_keys(connection)} == {"k": False, "l": True}


def test_revoking_what_is_not_there(connection: Connection) -> None:
    with pytest.raises(NotFoundError):
        revoke_key(connection, "nothing")


@pytest.mark.parametrize(
    ("name", "scopes", "pointer"), [("", ["read"], "/name"), ("k", [], "/scopes"), ("k", ["root"], "/scopes")]
)
def test_what_no_key_is_made_of(connection: Connection, name: str, scopes: list[str], pointer: str) -> None:
    with pytest.raises(BadInputError) as caught:
        create_key(connection, name, scopes)
    assert [fault.pointer for fault in caught.value.faults] == [pointer]
