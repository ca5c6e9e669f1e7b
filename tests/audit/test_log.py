import pytest
from sqlalchemy import Connection, text

from app.audit.queries import Head
from app.audit.service import TamperedAuditLogError, VerifiedLog, audit_head, list_entries, record, verify_log
from tests.fixtures.errors import naming


@pytest.fixture
def log(connection: Connection) -> Connection:
    """Five entries."""
    for i in range(5):
        record(connection, actor="ann", action="policy.set", subject=str(i), detail={"reason": f"grund „{i}“ =x"})
    return connection


def test_an_empty_log_is_whole(connection: Connection) -> None:
    assert verify_log(connection) == VerifiedLog(0, None)
    assert audit_head(connection) is None


def test_what_was_written_verifies(log: Connection) -> None:
    newest = list_entries(log, limit=1)[0]
    assert verify_log(log) == VerifiedLog(5, newest.hash)
    assert audit_head(log) == {"number": 5, "hash": newest.hash}
    assert [entry.subject for entry in list_entries(log, limit=9)] == ["4", "3", "2", "1", "0"]
    assert [entry.number for entry in list_entries(log, limit=2, before=4)] == [3, 2]


@pytest.mark.parametrize(
    ("tampering", "place"),
    [
        ("UPDATE audit_log SET actor = 'bob' WHERE number = 3", "entry 3"),
        ("UPDATE audit_log SET detail = '{}' WHERE number = 1", "entry 1"),
        ("UPDATE audit_log SET happened_at = happened_at + interval '1 microsecond' WHERE number = 5", "entry 5"),
        ("UPDATE audit_log SET hash = previous_hash WHERE number = 2", "entry 2"),
        ("DELETE FROM audit_log WHERE number = 2", "entry 2"),
        ("DELETE FROM audit_log WHERE number = 1", "entry 1"),
        ("UPDATE audit_log SET number = number + 10 WHERE number > 3", "entry 4"),
    ],
)
def test_tampering_is_found(log: Connection, tampering: str, place: str) -> None:
    log.execute(text(tampering))
    with pytest.raises(TamperedAuditLogError, check=naming(place)):
        verify_log(log)


def test_a_noted_head_shows_that_the_end_was_cut_off(log: Connection) -> None:
    head = audit_head(log)
    assert head
    noted = {"the noted head": Head(5, bytes.fromhex(head["hash"]))}
    verify_log(log, noted)
    log.execute(text("DELETE FROM audit_log WHERE number = 5"))
    assert verify_log(log).entries == 4
    with pytest.raises(TamperedAuditLogError, check=naming("the noted head", 4, 5)):
        verify_log(log, noted)
    record(log, actor="ann", action="policy.set", subject="9", detail={})
    with pytest.raises(TamperedAuditLogError, check=naming("the noted head", 5)):
        verify_log(log, noted)
