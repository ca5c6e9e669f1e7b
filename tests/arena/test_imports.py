import hashlib
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, text

from app.arena import imports
from app.arena.files import read_vote_file
from app.arena.imports import ImportReceipt, import_votes
from app.errors import BadInputError
from app.store.database import Database

Load = Callable[..., ImportReceipt]

HEADER = "annotator,model_a,model_b,winner,battle_id,timestamp,tags,metadata\n"


@pytest.fixture
def load(connection: Connection, tmp_path: Path) -> Load:
    """Import rows of CSV."""

    def run(*rows: str, **options: Any) -> ImportReceipt:
        path = tmp_path / "votes.csv"
        path.write_text(HEADER + "".join(f"{row}\n" for row in rows), encoding="utf-8")
        sha256 = hashlib.sha256(path.read_bytes()).digest()
        return import_votes(connection, read_vote_file(path), sha256=sha256, **options)

    return run


def count(conn: Connection) -> int:
    return int(conn.execute(text("SELECT count(*) FROM votes")).scalar_one())


def test_votes_are_stored_with_their_import(load: Load, connection: Connection) -> None:
    receipt = load('k,a,b,model_a,1,2026-01-02T03:04:05Z,"[""x"",""y""]","{""turn"": 1}"', "l,b,a,tie (bothbad),,,,")
    assert (receipt.rows, receipt.created, receipt.already_imported) == (2, 2, False)
    rows = connection.execute(
        text(
            "SELECT k.key, a.name, b.name, outcome, battle_id, voted_at::text, tags, metadata, import_id FROM votes "
            "JOIN annotators k ON k.id = annotator_id JOIN models a ON a.id = model_a_id "
            "JOIN models b ON b.id = model_b_id ORDER BY k.key"
        )
    ).all()
    assert rows[0][:5] == ("k", "a", "b", 0, "1")
    assert rows[0][5].startswith("2026-01-02 03:04:05")
    assert rows[0][6:] == (["x", "y"], {"turn": 1}, receipt.import_id)
    assert rows[1] == ("l", "b", "a", 3, None, None, [], None, receipt.import_id)


def test_the_same_file_again_is_left_alone(load: Load, connection: Connection) -> None:
    first = load("k,a,b,model_a,,,,")
    again = load("k,a,b,model_a,,,,")
    assert again.already_imported
    assert (again.import_id, again.created) == (first.import_id, 1)
    assert count(connection) == 1
    assert load("k,a,b,model_a,,,,", again=True).created == 1
    assert count(connection) == 2


def test_duplicates_and_conflicts(load: Load, connection: Connection) -> None:
    load("k,a,b,model_a,1,,,", "k,a,b,tie,2,,,")
    receipt = load("l,a,b,tie,1,,,", "k,b,a,model_b,1,,,", "k,a,b,model_b,2,,,", "m,a,b,tie,3,,,", "m,a,b,model_a,3,,,")
    assert (receipt.rows, receipt.created, receipt.duplicates, receipt.conflicts) == (5, 2, 1, 2)
    assert [place.pointer for place in receipt.conflict_places] == ["line 4", "line 6"]
    on_record = {str(one) for one in connection.execute(text("SELECT id FROM votes")).scalars()}
    assert all(place.detail.rsplit(" ", 1)[1] in on_record for place in receipt.conflict_places)
    assert count(connection) == 4


def test_a_file_with_faults_is_refused_whole(load: Load, connection: Connection) -> None:
    rows = ("k,a,b,model_a,,,,", "k,a,a,model_a,,,,", "k,a,b,nobody,,,,")
    with pytest.raises(BadInputError) as caught:
        load(*rows)
    assert caught.value.n_faults == len(caught.value.faults) == 2
    assert [fault.pointer.split(",")[0] for fault in caught.value.faults] == ["line 3", "line 4"]
    assert count(connection) == 0
    receipt = load(*rows, skip_invalid=True)
    assert (receipt.rows, receipt.created, receipt.rejected) == (3, 1, 2)


def test_a_file_of_nothing_but_faults(load: Load) -> None:
    with pytest.raises(BadInputError, match="no record is a valid vote"):
        load("k,a,a,model_a,,,,", skip_invalid=True)


def test_chunks_are_one_file(load: Load, connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imports, "_CHUNK", 3)
    shares: list[float] = []
    receipt = load(*(f"k,a,b,model_a,{i % 8},,," for i in range(10)), progress=shares.append)
    assert (receipt.created, receipt.duplicates) == (8, 2)
    assert shares == [0.3, 0.6, 0.9, 1.0]
    assert count(connection) == 8


def test_two_at_once_are_one_import(database: Database, tmp_path: Path) -> None:
    path = tmp_path / "votes.csv"
    path.write_text(HEADER + "".join(f"k{i},a,b,tie,,,,\n" for i in range(500)))
    receipts: list[ImportReceipt] = []

    def run() -> None:
        with database.begin() as conn:
            receipts.append(import_votes(conn, read_vote_file(path), sha256=b"x" * 32))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(receipt.already_imported for receipt in receipts) == [False, True, True, True]
    assert {receipt.created for receipt in receipts} == {500}
    with database.read() as conn:
        assert count(conn) == 500
