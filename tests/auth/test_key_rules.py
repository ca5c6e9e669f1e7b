import string
from datetime import timedelta

import pytest
from sqlalchemy import Connection, text

from app.audit.service import list_entries, verify_log
from app.auth.keys import authenticate, create_key, list_keys, revoke_key, rotate_key
from app.auth.schemas import Key
from app.auth.tokens import authenticate_token, create_token
from app.errors import BadInputError, ConflictError, NotAuthenticatedError, NotFoundError
from tests.fixtures.errors import naming


def test_who_holds_a_key(connection: Connection) -> None:
    record, secret = create_key(connection, "front end", ["read", "ingest", "read"])
    assert record.scopes == ("ingest", "read")
    caller = authenticate(connection, secret)
    assert (caller.key_id, caller.name, caller.scopes) == (record.id, "front end", {"ingest", "read"})
    assert caller.may("read")
    assert not caller.may("review")
    assert not caller.may("admin")


@pytest.mark.parametrize(
    ("held", "reads", "decides"),
    [("read", False, False), ("review:read", True, False), ("review", True, True), ("admin", True, True)],
)
def test_who_reviews_may_read_on_annotators(connection: Connection, held: str, reads: bool, decides: bool) -> None:
    caller = authenticate(connection, create_key(connection, held, [held])[1])
    assert (caller.may("review:read"), caller.may("review")) == (reads, decides)


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
        with pytest.raises(NotAuthenticatedError):
            authenticate(connection, one)


@pytest.mark.parametrize("by", ["prefix", "id", "sa_prefix"])
def test_revoking(connection: Connection, by: str) -> None:
    record, secret = create_key(connection, "k", ["read"])
    _, other = create_key(connection, "l", ["read"])
    named = {"prefix": record.prefix, "id": str(record.id), "sa_prefix": f"sa_{record.prefix}"}[by]
    revoked = revoke_key(connection, named)
    assert revoked.revoked_at is not None
    assert revoke_key(connection, named) == revoked
    with pytest.raises(NotAuthenticatedError):
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
    assert [error.pointer for error in caught.value.errors] == [pointer]


HOUR = timedelta(hours=1)


def pass_time(conn: Connection, table: str, seconds: float) -> None:
    """Let every key or token be made, and expire, so much earlier."""
    moments = ("created_at", "expires_at")
    changes = ", ".join(f"{name} = {name} - interval '{seconds} s'" for name in moments)
    conn.execute(text(f"UPDATE {table} SET {changes}"))


def record_of(conn: Connection, record: Key) -> Key:
    return next(one for one in list_keys(conn) if one.id == record.id)


def test_a_key_with_a_term(connection: Connection) -> None:
    soon = connection.execute(text("SELECT now() + interval '10 s'")).scalar_one()
    record, secret = create_key(connection, "k", ["read"], expires_at=soon, requests_per_minute=7)
    assert (record.expires_at, record.requests_per_minute) == (soon, 7)
    assert authenticate(connection, secret).requests_per_minute == 7
    pass_time(connection, "api_keys", 10)
    with pytest.raises(NotAuthenticatedError):
        authenticate(connection, secret)


def test_terms_and_limits_that_cannot_be(connection: Connection) -> None:
    past = connection.execute(text("SELECT now()")).scalar_one()
    with pytest.raises(BadInputError) as caught:
        create_key(connection, "k", ["read"], expires_at=past, requests_per_minute=0)
    assert [error.pointer for error in caught.value.errors] == ["/expires_at", "/requests_per_minute"]


def test_rotation_overlaps(connection: Connection) -> None:
    old, old_secret = create_key(connection, "k", ["read", "ingest"], requests_per_minute=7)
    new, new_secret = rotate_key(connection, old.prefix, overlap=HOUR)
    assert (new.name, new.scopes, new.requests_per_minute, new.expires_at) == (old.name, old.scopes, 7, None)
    assert record_of(connection, old).replaced_by == new.id
    assert authenticate(connection, old_secret).key_id == old.id
    assert authenticate(connection, new_secret).key_id == new.id
    pass_time(connection, "api_keys", 3600)
    with pytest.raises(NotAuthenticatedError):
        authenticate(connection, old_secret)
    assert authenticate(connection, new_secret).key_id == new.id


def test_rotation_keeps_the_length_of_a_term(connection: Connection) -> None:
    now = connection.execute(text("SELECT now()")).scalar_one()
    old, _ = create_key(connection, "k", ["read"], expires_at=now + 24 * HOUR)
    pass_time(connection, "api_keys", 23.5 * 3600)
    new, _ = rotate_key(connection, str(old.id), overlap=HOUR)
    assert new.expires_at == now + 24 * HOUR
    assert record_of(connection, old).expires_at == now + HOUR / 2, "an overlap made the old key's term longer"


@pytest.mark.parametrize("state", ["revoked", "expired", "replaced"])
def test_what_cannot_be_rotated(connection: Connection, state: str) -> None:
    record, _ = create_key(connection, "k", ["read"])
    if state == "revoked":
        revoke_key(connection, record.prefix)
    else:
        rotate_key(connection, record.prefix, overlap=HOUR)
    if state == "expired":
        pass_time(connection, "api_keys", 3600)
    with pytest.raises(ConflictError, check=naming(record.prefix, state)):
        rotate_key(connection, record.prefix, overlap=HOUR)


@pytest.mark.parametrize("overlap", [timedelta(seconds=-1), timedelta(days=30, seconds=1)])
def test_overlaps_that_cannot_be(connection: Connection, overlap: timedelta) -> None:
    record, _ = create_key(connection, "k", ["read"])
    with pytest.raises(BadInputError):
        rotate_key(connection, record.prefix, overlap=overlap)


@pytest.mark.parametrize("reference", ["", "sa_", "\udc80", "\0", "%"])
def test_references_to_no_key(connection: Connection, reference: str) -> None:
    with pytest.raises(NotFoundError):
        rotate_key(connection, reference, overlap=HOUR)


def test_what_is_done_with_keys_is_on_the_log(connection: Connection) -> None:
    record, secret = create_key(connection, "k", ["read"], actor="boss")
    new, _ = rotate_key(connection, record.prefix, overlap=HOUR, actor="boss")
    revoke_key(connection, record.prefix, actor="boss")
    revoke_key(connection, record.prefix, actor="boss")
    entries = list_entries(connection, limit=10)
    assert [(one.action, one.subject, one.actor) for one in entries] == [
        ("key.revoke", str(record.id), "boss"),
        ("key.rotate", str(record.id), "boss"),
        ("key.create", str(record.id), "boss"),
    ]
    assert entries[1].detail["replaced_by"] == str(new.id)
    assert secret.rpartition("_")[2] not in str(entries)
    verify_log(connection)


def test_a_token_of_a_key(connection: Connection) -> None:
    key, secret = create_key(connection, "k", ["ingest", "read"], requests_per_minute=7)
    record = create_token(connection, authenticate(connection, secret), lifetime=HOUR)
    token = record.token
    assert token.startswith("sat_")
    caller = authenticate_token(connection, token)
    assert (caller.key_id, caller.name, caller.scopes) == (key.id, "k", {"ingest"})
    assert (caller.token_id, caller.requests_per_minute) == (record.id, 7)
    assert caller.may_vote_as("any annotator")
    stored = connection.execute(text("SELECT t::text FROM ingest_tokens t")).scalar_one()
    assert token.rpartition("_")[2] not in stored
    with pytest.raises(NotAuthenticatedError):
        authenticate(connection, token)
    with pytest.raises(NotAuthenticatedError):
        authenticate_token(connection, secret)


def test_a_token_bound_to_an_annotator(connection: Connection) -> None:
    _, secret = create_key(connection, "k", ["ingest"])
    caller = authenticate(connection, secret)
    token = create_token(connection, caller, lifetime=HOUR, annotator="Zoë-17").token
    bound = authenticate_token(connection, token)
    assert bound.may_vote_as("Zoë-17")
    assert not any(bound.may_vote_as(other) for other in ("Zoë-1", "zoë-17", "", "\ud800"))
    stored = connection.execute(text("SELECT t::text FROM ingest_tokens t")).scalar_one()
    assert "Zo" not in stored, "the annotator's raw key is stored"


def test_a_token_dies_in_time_and_with_its_key(connection: Connection) -> None:
    key, secret = create_key(connection, "k", ["ingest"])
    caller = authenticate(connection, secret)
    short = create_token(connection, caller, lifetime=HOUR / 2).token
    long = create_token(connection, caller, lifetime=HOUR).token
    pass_time(connection, "ingest_tokens", 1800)
    with pytest.raises(NotAuthenticatedError):
        authenticate_token(connection, short)
    assert authenticate_token(connection, long).key_id == key.id
    revoke_key(connection, key.prefix)
    with pytest.raises(NotAuthenticatedError):
        authenticate_token(connection, long)


def test_a_token_does_not_outlive_its_key(connection: Connection) -> None:
    now = connection.execute(text("SELECT now()")).scalar_one()
    _, secret = create_key(connection, "k", ["ingest"], expires_at=now + HOUR / 4)
    record = create_token(connection, authenticate(connection, secret), lifetime=HOUR)
    assert record.expires_at == now + HOUR / 4


def test_expired_tokens_are_purged(connection: Connection) -> None:
    _, secret = create_key(connection, "k", ["ingest"])
    caller = authenticate(connection, secret)
    for _ in range(3):
        create_token(connection, caller, lifetime=HOUR)
    pass_time(connection, "ingest_tokens", 3600)
    record = create_token(connection, caller, lifetime=HOUR)
    assert connection.execute(text("SELECT id FROM ingest_tokens")).scalars().all() == [record.id]


@pytest.mark.parametrize(
    ("lifetime", "annotator", "pointer"),
    [(timedelta(0), None, "/seconds"), (HOUR + timedelta(seconds=1), None, "/seconds"), (HOUR, " ", "/annotator")],
)
def test_tokens_that_cannot_be(
    connection: Connection, lifetime: timedelta, annotator: str | None, pointer: str
) -> None:
    _, secret = create_key(connection, "k", ["ingest"])
    with pytest.raises(BadInputError) as caught:
        create_token(connection, authenticate(connection, secret), lifetime=lifetime, annotator=annotator)
    assert [error.pointer for error in caught.value.errors] == [pointer]
