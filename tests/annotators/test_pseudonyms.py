import hashlib
import hmac
import json
from collections.abc import Callable, Iterator
from typing import Any

import polars as pl
import pytest
from pydantic import ValidationError
from sqlalchemy import text

from app.annotators.erasure import pseudonymise
from app.database.engine import Database
from app.errors import BadInputError, ConflictError
from app.imports.formats.checks import VOTE_COLUMNS
from app.imports.names import number_votes
from app.naming.known_names import Known
from app.naming.pseudonyms import STORED, Pseudonyms
from app.naming.service import Naming, PseudonymKeyMissingError, RawKeysStoredError, require_pseudonym_key
from app.settings import Settings
from app.votes.schemas import Vote
from app.votes.service import record_votes
from tests.fixtures.crowds import SENDER
from tests.fixtures.environment import Configure
from tests.fixtures.errors import naming

SECRETS = {1: b"the first secret, 32 bytes at least", 2: b"the second secret, 32 bytes at least"}


@pytest.fixture
def open_with(database_url: str) -> Iterator[Callable[..., Database]]:
    """Open the test's database as a process that makes pseudonyms with the secret of this version does."""
    opened = []

    def make(version: int = 1, *, known: tuple[int, ...] = (1,)) -> Database:
        pseudonyms = Pseudonyms(version, {number: SECRETS[number] for number in known})
        opened.append(Database(database_url, connection_options=Naming(pseudonyms=pseudonyms).connection_options))
        return opened[-1]

    yield make
    for one in opened:
        one.close()


def vote(annotator: str) -> Vote:
    return Vote(model_a="ant", model_b="bee", winner="tie", annotator=annotator)


def record(database: Database, *annotators: str) -> None:
    with database.begin() as conn:
        receipts = record_votes(conn, [(vote(name), SENDER) for name in annotators], Known())
        assert {receipt.status for receipt in receipts} == {"created"}


def stored_keys(database: Database) -> list[str]:
    with database.read() as conn:
        return list(conn.execute(text("SELECT key FROM annotators ORDER BY id")).scalars())


def test_a_pseudonym_is_the_hmac_of_the_key() -> None:
    naive = hmac.new(SECRETS[1], "Zoë".encode(), hashlib.sha256).digest()
    first, second = Pseudonyms(2, SECRETS).of("Zoë")[1], Pseudonyms(1, SECRETS).of("Zoë")[0]
    assert first == second
    letters = "abcdefghijklmnopqrstuvwxyz234567"
    number = int.from_bytes(naive + b"\0" * 3)  # 32 bytes are 51.2 letters of five bits; padded to 56
    digits = "".join(letters[number >> 5 * place & 31] for place in reversed(range(56)))
    assert first == "p1_" + digits[:52]


def test_secrets_are_not_shown() -> None:
    assert "secret" not in repr(Naming(pseudonyms=Pseudonyms(1, SECRETS)))


def test_keys_on_record_are_rewritten(database: Database, open_with: Callable[..., Database]) -> None:
    record(database, "ann", "bob", "ann", "'; --")
    private = open_with()
    with pytest.raises(RawKeysStoredError):
        record(private, "ann")
    with private.begin() as conn:
        assert pseudonymise(conn, done_by="a test") == 3
    expected = [Pseudonyms(1, SECRETS).of(key)[0] for key in ("'; --", "ann", "bob")]  # in the order of their numbers
    assert stored_keys(database) == expected
    record(private, "ann", "eve")
    assert stored_keys(database) == [*expected, Pseudonyms(1, SECRETS).of("eve")[0]]
    with private.begin() as conn:
        assert pseudonymise(conn, done_by="a test") == 0, "again it does nothing"
        entries = conn.execute(text("SELECT action, detail FROM audit_log")).all()
    assert entries == [("annotators.pseudonymise", '{"annotators":3}')]


def test_half_way_nothing_has_happened(database: Database, open_with: Callable[..., Database]) -> None:
    record(database, "ann")
    with open_with().begin() as conn:
        assert pseudonymise(conn, done_by="a test") == 1
        conn.get_transaction().rollback()  # type: ignore[union-attr]  # begin() has begun it
    assert stored_keys(database) == ["ann"]


def test_nobody_becomes_two(database_url: str, open_with: Callable[..., Database]) -> None:
    private = open_with()
    record(private, "ann")
    with Database(database_url, connection_options=Naming(raw_beside=True).connection_options) as without_secret:
        record(without_secret, "ann")
    with pytest.raises(ConflictError), private.begin() as conn:
        pseudonymise(conn, done_by="a test")


def test_without_a_secret_there_is_nothing_to_do_it_with(database: Database) -> None:
    with pytest.raises(BadInputError, check=naming("STABLE_ARENA_PSEUDONYM_KEY")), database.begin() as conn:
        pseudonymise(conn, done_by="a test")


def test_rotation(database: Database, open_with: Callable[..., Database]) -> None:
    record(open_with(), "ann")
    record(open_with(2, known=(1, 2)), "ann", "bob")
    assert [key[:3] for key in stored_keys(database)] == ["p1_", "p2_"]


def test_imports_store_pseudonyms(database: Database, open_with: Callable[..., Database]) -> None:
    vote = {"annotator": "ann", "model_a": "ant", "model_b": "bee", "outcome": 0, "row": 0}
    row = {**dict.fromkeys(VOTE_COLUMNS), **vote}
    with open_with().begin() as conn:
        numbered, faults = number_votes(conn, pl.DataFrame([row], VOTE_COLUMNS))
    assert (numbered.height, faults) == (1, [])
    (key,) = stored_keys(database)
    assert key.startswith("p1_")


def test_the_forms_that_count_as_pseudonyms(database: Database) -> None:
    forms = {Pseudonyms(12, {12: SECRETS[1]}).of("x")[0]: True, "erased_" + "a" * 52: True, "p1_x": False, "ann": False}
    with database.read() as conn:
        for key, counts in forms.items():
            assert conn.execute(text("SELECT :key ~ :form"), {"key": key, "form": STORED}).scalar_one() is counts


SECRET, EARLIER = "one secret for the pseudonyms of today", "y" * 32


@pytest.mark.parametrize(
    "variables",
    [
        {"PSEUDONYM_KEY": ""},
        {"PSEUDONYM_KEY": SECRET[:31]},
        {"PSEUDONYM_KEY": SECRET, "PSEUDONYM_KEY_VERSION": "0"},
        {"PSEUDONYM_KEY": SECRET, "PSEUDONYM_PREVIOUS_KEYS": '{"1": "short"}', "PSEUDONYM_KEY_VERSION": "2"},
        {"PSEUDONYM_KEY": SECRET, "PSEUDONYM_PREVIOUS_KEYS": json.dumps({1: EARLIER})},
        {"PSEUDONYM_PREVIOUS_KEYS": json.dumps({1: EARLIER}), "PSEUDONYM_KEY_VERSION": "2"},
    ],
)
def test_settings_that_are_refused(configure: Configure, variables: dict[str, Any]) -> None:
    configure(**variables)
    with pytest.raises(ValidationError) as refused:
        Settings()
    assert SECRET[:9] not in str(refused.value)


def test_settings_of_a_rotation(configure: Configure) -> None:
    previous = json.dumps({1: EARLIER})
    configure(PSEUDONYM_KEY=SECRET, PSEUDONYM_KEY_VERSION=2, PSEUDONYM_PREVIOUS_KEYS=previous)
    assert Settings().pseudonym_secrets() == {1: EARLIER.encode(), 2: SECRET.encode()}


def test_raw_keys_are_not_stored_beside_pseudonyms_for_want_of_the_secret(
    open_with: Callable[..., Database], database: Database, database_url: str
) -> None:
    record(open_with(), "ann")
    with database.read() as conn, pytest.raises(PseudonymKeyMissingError):
        require_pseudonym_key(conn)
    with pytest.raises(PseudonymKeyMissingError), database.begin() as conn:
        record_votes(conn, [(vote("ann"), SENDER)], Known())
    assert len(stored_keys(database)) == 1
    with Database(database_url, connection_options=Naming(raw_beside=True).connection_options) as allowed:
        record(allowed, "ann")
        assert stored_keys(allowed)[1] == "ann"
    with database.read() as conn:  # it is settled from here on
        require_pseudonym_key(conn)


def test_one_raw_key_called_like_a_pseudonym_stops_nobody(database: Database) -> None:
    record(database, "ann", "p1_" + "a" * 52)
    with database.read() as conn:
        require_pseudonym_key(conn)
