import threading
from collections.abc import Callable
from itertools import count as count_from
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from app.database.engine import Database
from app.database.errors import DatabaseContendedError
from app.errors import BadInputError
from app.imports import loading
from app.imports.formats.errors import NoVotesError, UnreadableFileError
from app.imports.local import ImportReceipt, import_file
from app.imports.schemas import ImportFault
from app.imports.service import ImportOptions, every_fault
from app.naming.service import Naming
from app.policy.changes import set_policy
from app.policy.service import current_policy
from app.votes.retractions.service import retract_votes
from app.votes.rules import MAX_METADATA_DEPTH, MAX_METADATA_LENGTH, MAX_TAGS
from tests.fixtures.errors import having

Load = Callable[..., ImportReceipt]

HEADER = "annotator,model_a,model_b,winner,battle_id,timestamp,tags,metadata\n"


@pytest.fixture
def load(database: Database, tmp_path: Path) -> Load:
    """Import rows of CSV."""

    def run(*rows: str, progress: Callable[[float], None] | None = None, **options: Any) -> ImportReceipt:
        path = tmp_path / "votes.csv"
        path.write_text(HEADER + "".join(f"{row}\n" for row in rows), encoding="utf-8")
        return import_file(database, path, ImportOptions(**options), requested_by="a test", progress=progress)

    return run


def scalar(database: Database, query: str) -> Any:
    with database.read() as conn:
        return conn.execute(text(query)).scalar_one()


def count(database: Database, table: str = "votes") -> int:
    return int(scalar(database, f"SELECT count(*) FROM {table}"))


def counts(receipt: ImportReceipt) -> tuple[int | None, ...]:
    c = receipt.counts
    return c.rows, c.created, c.duplicates, c.conflicts, c.rejected, c.skipped


def test_votes_are_stored_with_their_import(load: Load, database: Database) -> None:
    receipt = load(
        'k,a,b,model_a,1,2026-01-02T03:04:05Z,"[""x"",""y\\"",z"",""{}""]","{""turn"": 1}"',
        "l,b,a,tie (bothbad),,,,",
    )
    assert counts(receipt) == (2, 2, 0, 0, 0, 0)
    with database.read() as conn:
        rows = conn.execute(
            text(
                "SELECT k.key, a.name, b.name, outcome, battle_id, voted_at::text, tags, metadata, import_id "
                "FROM votes JOIN annotators k ON k.id = annotator_id JOIN models a ON a.id = model_a_id "
                "JOIN models b ON b.id = model_b_id ORDER BY k.key"
            )
        ).all()
    assert rows[0][:5] == ("k", "a", "b", 0, "1")
    assert rows[0][5].startswith("2026-01-02 03:04:05")
    assert rows[0][6:] == (["x", 'y",z', "{}"], {"turn": 1}, receipt.import_id)
    assert rows[1] == ("l", "b", "a", 3, None, None, [], None, receipt.import_id)


def test_votes_keep_the_order_of_the_file(load: Load, database: Database) -> None:
    load(*(f"k{i % 7},a,b,tie,{99 - i},,," for i in range(50)))
    with database.read() as conn:
        battles = conn.execute(text("SELECT battle_id FROM votes ORDER BY id")).scalars().all()
    assert battles == [str(99 - i) for i in range(50)]


def test_the_same_file_again_is_left_alone(load: Load, database: Database) -> None:
    first = load("k,a,b,model_a,,,,")
    again = load("k,a,b,model_a,,,,")
    assert again.already_imported
    assert (again.import_id, again.counts) == (first.import_id, first.counts)
    assert count(database) == 1
    assert load("k,a,b,model_a,,,,", again=True).counts.created == 1
    assert (count(database), count(database, "imports")) == (2, 2)


def test_identical_rows_are_different_votes(load: Load, database: Database) -> None:
    assert load(*["k,a,b,model_a,,,,"] * 3).counts.created == count(database) == 3


def test_duplicates_and_conflicts(load: Load, database: Database) -> None:
    load("k,a,b,model_a,1,,,", "k,a,b,tie,2,,,")
    receipt = load(
        "l,a,b,tie,1,,,", "k,b,a,model_b,1,,,", "k,a,b,model_b,2,,,", "m,a,b,tie,3,,,", "m,a,b,model_a,3,,,",
        "k,b,a,model_a,1,,,", "k,b,a,tie,2,,,", "k,a,c,tie,2,,,", "n,a,b,tie,,,,",
    )  # fmt: skip
    assert counts(receipt) == (9, 3, 2, 4, 0, 0)
    places = [(one.place, one.detail.partition(", ")[2].partition(":")[0]) for one in receipt.conflicts]
    assert places == [
        ("line 4", "with another verdict"), ("line 6", "with another verdict"), ("line 7", "with another verdict"),
        ("line 9", "on other models"),
    ]  # fmt: skip
    with database.read() as conn:
        on_record = {str(one) for one in conn.execute(text("SELECT id FROM votes")).scalars()}
    assert all(one.detail.rsplit(" ", 1)[1] in on_record for one in receipt.conflicts)
    assert len(on_record) == 5


def test_a_file_with_faults_is_refused_whole(load: Load, database: Database) -> None:
    rows = ("k,a,b,model_a,,,,", "k,a,,model_a,,,,", "k,a,b,nobody,,,,")
    with pytest.raises(BadInputError) as caught:
        load(*rows)
    assert caught.value.n_errors == len(caught.value.errors) == 2
    assert [fault.pointer.split(",")[0] for fault in caught.value.errors] == ["line 3", "line 4"]
    assert [count(database, table) for table in ("votes", "imports", "models", "annotators")] == [0, 0, 0, 0]
    receipt = load(*rows, skip_invalid=True)
    assert counts(receipt) == (3, 1, 0, 0, 2, 0)
    assert receipt.import_id is not None
    faults = [fault for lot in every_fault(database, receipt.import_id) for fault in lot]
    assert [(fault.record, fault.place, fault.kind) for fault in faults] == [
        (1, "line 3, model_b", "invalid"), (2, "line 4, winner", "invalid"),
    ]  # fmt: skip


def test_a_file_of_nothing_but_faults(load: Load, database: Database) -> None:
    with pytest.raises(NoVotesError, check=having(n_errors=1)):
        load("k,a,,model_a,,,,", skip_invalid=True)
    assert count(database, "imports") == 0


def test_a_file_that_breaks_off_is_refused_before_anything_is_written(load: Load, database: Database) -> None:
    with pytest.raises(UnreadableFileError, check=having(extensions={"line": 120_003})):
        load(*["k,a,b,tie,,,,"] * 120_001, "k,a,b,tie,,,,,9", skip_invalid=True)
    assert [count(database, table) for table in ("votes", "imports", "models")] == [0, 0, 0]


def test_a_dry_run_counts_and_records_nothing(load: Load, database: Database) -> None:
    receipt = load("k,a,b,model_a,,,,", "k,a,,model_a,,,,", dry_run=True)
    assert (receipt.import_id, counts(receipt)) == (None, (2, 0, None, None, 1, 0)), "nothing was looked up"
    assert [(fault.place, fault.detail) for fault in receipt.faults] == [("line 3, model_b", "must not be blank")]
    assert [count(database, table) for table in ("votes", "imports", "models", "annotators")] == [0, 0, 0, 0]


def test_chunks_are_one_file(load: Load, database: Database, rows_per_chunk: Callable[[int], None]) -> None:
    rows_per_chunk(3)
    shares: list[float] = []
    receipt = load(*(f"k,a,b,model_a,{i % 8},,," for i in range(30)), progress=shares.append)
    assert counts(receipt)[:3] == (30, 8, 22)
    assert shares[-1] == 1.0
    assert len(shares) > 2
    assert count(database) == 8


@pytest.mark.parametrize("stop_after", [0, 2, *(pytest.param(n, marks=pytest.mark.campaign) for n in (1, 3, 4))])
def test_what_was_cut_short_is_taken_on(
    load: Load, database: Database, kill: Callable[..., None], stop_after: int
) -> None:
    rows = [f"k{i},a,b,model_a,{i if i % 3 else ''},,," for i in range(20)] + ["k0,a,,tie,,,,"]
    kill(stop_after + 1, lambda: load(*rows, skip_invalid=True), rows=4)
    assert scalar(database, "SELECT rows_done FROM imports") >= count(database)
    before = count(database)
    receipt = load(*rows, again=True)  # the import that was cut short comes first, with the options it began with
    assert receipt.resumed
    assert counts(receipt) == (21, 20, 0, 0, 1, 0)
    assert (count(database), count(database, "imports")) == (20, 1)
    assert before < 20
    assert scalar(database, "SELECT count(DISTINCT annotator_id) FROM votes") == 20


def test_two_at_once_are_one_import(database: Database, tmp_path: Path, rows_per_chunk: Callable[[int], None]) -> None:
    rows_per_chunk(50)
    path = tmp_path / "votes.csv"
    path.write_text(HEADER + "".join(f"k{i},a,b,tie,,,,\n" for i in range(500)))
    receipts: list[ImportReceipt] = []

    def run() -> None:
        receipts.append(import_file(database, path, ImportOptions(), requested_by="a test"))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({receipt.import_id for receipt in receipts}) == 1
    assert {receipt.counts.created for receipt in receipts} == {500}
    assert count(database) == 500


def test_a_chunk_that_was_in_others_way_is_repeated(
    load: Load, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts, really = count_from(1), loading.load_votes

    def contended(*arguments: Any, **options: Any) -> Any:
        if next(attempts) < 4:
            raise DatabaseContendedError("deadlock detected")
        return really(*arguments, **options)

    monkeypatch.setattr(loading, "load_votes", contended)
    assert load("k,a,b,tie,,,,").counts.created == count(database) == 1


def test_a_live_vote_on_a_new_model_does_not_wait_for_the_import(
    load: Load, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached, may_go_on = threading.Event(), threading.Event()
    really = loading.load_votes

    def held_up(*arguments: Any, **options: Any) -> Any:
        done = really(*arguments, **options)
        reached.set()
        assert may_go_on.wait(120)
        return done

    monkeypatch.setattr(loading, "load_votes", held_up)
    importing = threading.Thread(target=load, args=("k,new,b,tie,,,,",))
    importing.start()
    try:
        assert reached.wait(120)
        with database.begin() as conn:  # the chunk is written and not committed
            conn.execute(text("SET LOCAL lock_timeout = '5s'"))
            conn.execute(text("INSERT INTO models (name) VALUES ('new') ON CONFLICT (name) DO NOTHING"))
            conn.execute(text("INSERT INTO models (name) VALUES ('newer') ON CONFLICT (name) DO NOTHING"))
    finally:
        may_go_on.set()
        importing.join()
    assert count(database) == 1


def test_unknown_models_are_refused_where_they_are_to_be(database_url: str, tmp_path: Path) -> None:
    path = tmp_path / "votes.csv"
    path.write_text(HEADER + "k,a,b,tie,,,,\nk,a,c,tie,,,,\n")
    with Database(database_url, connection_options=Naming(unknown_models="refuse").connection_options) as database:
        with database.begin() as conn:
            conn.execute(text("INSERT INTO models (name) VALUES ('a'), ('b')"))
        with pytest.raises(BadInputError, check=having(n_errors=1)) as caught:
            import_file(database, path, ImportOptions(), requested_by="a test")
        assert [(f.pointer, f.detail[:27]) for f in caught.value.errors] == [("line 3", "model_b is not the name of ")]
        receipt = import_file(database, path, ImportOptions(skip_invalid=True), requested_by="a test")
        assert counts(receipt) == (2, 1, 0, 0, 1, 0)
        assert receipt.import_id is not None
        faults: list[ImportFault] = next(every_fault(database, receipt.import_id))
        assert [fault.place for fault in faults] == ["line 3"]
        assert count(database, "models") == 2


def test_aliases_hold_at_the_votes_moment(load: Load, database: Database) -> None:
    with database.begin() as conn:
        conn.execute(text("INSERT INTO models (name) VALUES ('old name'), ('b')"))
        conn.execute(
            text(
                "INSERT INTO model_aliases (id, name, model_id, valid_from, created_by) "
                "SELECT gen_random_uuid(), 'alias', id, '2026-01-01', 'a test' FROM models WHERE name = 'old name'"
            )
        )
    receipt = load(
        "k,alias,b,model_a,,2026-05-01,,",
        "k,alias,b,model_a,,2025-05-01,,",
        "k,alias,old name,model_a,,2026-05-01,,",
        skip_invalid=True,
    )
    assert counts(receipt) == (3, 2, 0, 0, 1, 0)
    with database.read() as conn:
        named = conn.execute(text("SELECT m.name FROM votes JOIN models m ON m.id = model_a_id ORDER BY voted_at"))
        assert named.scalars().all() == ["alias", "old name"]


def store_policy(database: Database, **changes: Any) -> None:
    with database.begin() as conn:
        settings = current_policy(conn).settings.model_copy(update=changes)
        set_policy(conn, settings, reason="a test", created_by="a test")


def test_a_file_replaces_verdicts_where_the_policy_says_so(load: Load, database: Database) -> None:
    load("k,a,b,model_a,1,,,", "k,a,b,model_a,2,,,", "l,a,b,tie,1,,,")
    store_policy(database, on_conflict="replace")
    # The first takes the place of what is on record, the second is the same once more, the third takes its place again,
    # the fourth goes back to what was there at first, the fifth says what is on record already; the others are new.
    rows = ["k,b,a,model_a,1,,x,", "k,a,b,model_b,1,,,", "k,a,b,tie,1,,,", "k,a,b,model_a,1,,,", "k,a,b,model_a,2,,,"]
    receipt = load(*rows, "m,a,b,tie,3,,,", 'm,a,b,model_a,3,,,"{""n"": 1}"')
    expected = {"rows": 7, "created": 5, "replaced": 4, "duplicates": 2, "retracted": 0, "conflicts": 0}
    assert receipt.counts.model_dump() == {**expected, "rejected": 0, "skipped": 0}
    with database.read() as conn:
        statement = """
        SELECT k.key, v.battle_id, v.outcome, v.version, v.tags, v.metadata, v.import_id = :import_id,
               r.replaced_by = (SELECT n.id FROM votes n WHERE (n.battle_id, n.annotator_id, n.version)
                                = (v.battle_id, v.annotator_id, v.version + 1))
        FROM votes v JOIN annotators k ON k.id = v.annotator_id LEFT JOIN retracted_votes r ON r.vote_id = v.id
        ORDER BY 1, 2, 4
        """
        assert [tuple(row) for row in conn.execute(text(statement), {"import_id": receipt.import_id})] == [
            ("k", "1", 0, 0, [], None, False, True),
            ("k", "1", 0, 1, ["x"], None, True, True),
            ("k", "1", 2, 2, [], None, True, True),
            ("k", "1", 0, 3, [], None, True, None),
            ("k", "2", 0, 0, [], None, False, None),
            ("l", "1", 2, 0, [], None, False, None),
            ("m", "3", 2, 0, [], None, True, True),
            ("m", "3", 0, 1, [], {"n": 1}, True, None),
        ]


@pytest.mark.parametrize(("on_conflict", "created", "conflicts"), [("reject", 1, 1), ("replace", 2, 0)])
def test_what_is_retracted_a_file_votes_on_anew(
    load: Load, database: Database, on_conflict: str, created: int, conflicts: int
) -> None:
    load("k,a,b,model_a,1,,,", "k,a,b,tie,2,,,")
    with database.begin() as conn:
        retract_votes(conn, "battle", "1", reason="a test", retracted_by="a test")
    store_policy(database, on_conflict=on_conflict)
    receipt = load("k,a,b,model_a,1,,,", "k,a,b,tie,2,,,", "k,a,b,tie,1,,,")
    counts = receipt.counts
    assert (counts.created, counts.duplicates, counts.retracted, counts.conflicts) == (created, 1, 0, conflicts)
    assert [(fault.place, fault.kind) for fault in receipt.conflicts] == [("line 4", "conflict")] * conflicts


def test_files_are_held_to_the_limits_of_votes_that_are_sent(load: Load, database: Database) -> None:
    deep = '{""x"": ' * MAX_METADATA_DEPTH + "{}" + "}" * MAX_METADATA_DEPTH
    long = f'{{""x"": ""{"y" * MAX_METADATA_LENGTH}""}}'
    receipt = load(
        f"k,a,b,tie,,,{';'.join('t' * (n + 1) for n in range(MAX_TAGS + 1))},",
        f'k,a,b,tie,,,,"{long}"',
        f'k,a,b,tie,,,,"{deep}"',
        f"k,a,b,tie,,,{';'.join('t' * (n + 1) for n in range(MAX_TAGS))},",
        skip_invalid=True,
    )
    assert (receipt.counts.created, receipt.counts.rejected) == (1, 3)
    assert receipt.import_id is not None
    faults = [fault.detail for page in every_fault(database, receipt.import_id) for fault in page]
    assert faults == [
        f"must be at most {MAX_TAGS}",
        f"must have at most {MAX_METADATA_LENGTH} characters as JSON",
        f"must not nest deeper than {MAX_METADATA_DEPTH} levels",
    ]
