import numpy as np
import pytest
from sqlalchemy import Connection, func, insert, select

from app.database.engine import Database
from app.database.ids import new_id
from app.database.tables import annotators, models, votes
from app.snapshots.vote_sets import anything_new_since, new_votes_since, read_vote_set
from app.votes import arrays as vote_arrays
from app.votes.arrays import parse_joined_votes, read_votes


def add_names(conn: Connection, n_annotators: int, n_models: int) -> tuple[list[int], list[int]]:
    people = [{"public_id": new_id(), "key": f"annotator {i}"} for i in range(n_annotators)]
    contestants = [{"name": f"model {i}"} for i in range(n_models)]
    annotator_ids = conn.execute(insert(annotators).returning(annotators.c.id), people).scalars().all()
    model_ids = conn.execute(insert(models).returning(models.c.id), contestants).scalars().all()
    return list(annotator_ids), list(model_ids)


def add_vote(conn: Connection, annotator: int, model_a: int, model_b: int, outcome: int = 0) -> None:
    values = {"annotator_id": annotator, "model_a_id": model_a, "model_b_id": model_b, "outcome": outcome}
    conn.execute(insert(votes).values(id=new_id(), **values))


@pytest.mark.parametrize("blocks", [1, 4096])
def test_the_joined_bytes_say_what_the_rows_say(
    connection: Connection, monkeypatch: pytest.MonkeyPatch, blocks: int
) -> None:
    monkeypatch.setattr(vote_arrays, "BLOCKS", blocks)
    people, contestants = add_names(connection, 7, 5)
    random = np.random.default_rng(1)
    for _ in range(300):
        model_a, model_b = random.choice(contestants, 2, replace=False).tolist()
        add_vote(connection, int(random.choice(people)), model_a, model_b, int(random.integers(4)))
    c = votes.c
    rows = connection.execute(select(c.annotator_id, c.model_a_id, c.model_b_id, c.outcome)).all()
    read = read_votes(connection)
    copied = zip(
        read.annotator_id.tolist(), read.model_a_id.tolist(), read.model_b_id.tolist(), read.outcome.tolist(),
        strict=True,
    )  # fmt: skip
    assert sorted(copied) == sorted(tuple(row) for row in rows)


def test_no_votes_are_empty_arrays(connection: Connection) -> None:
    read = read_votes(connection)
    assert len(read.annotator_id) == len(read.outcome) == 0


@pytest.mark.parametrize("joined", [b"", bytes(27), bytes(29), bytes(42)])
def test_anything_but_whole_rows_is_refused(joined: bytes) -> None:
    with pytest.raises(ValueError, match=rf"^2 votes have {len(joined)} bytes, not 14 each$"):
        parse_joined_votes(joined, np.dtype([("ids", ">i4", 3), ("outcome", ">i2")]), 2)


def test_a_vote_that_commits_late_is_never_lost(database: Database) -> None:
    with database.begin() as conn:
        (annotator,), (model_a, model_b) = add_names(conn, 1, 2)
    with database.begin() as late:
        add_vote(late, annotator, model_a, model_b)
        with database.begin() as early:
            add_vote(early, annotator, model_a, model_b)
        with database.read() as conn:
            vote_set = read_vote_set(conn)
            seen = len(read_votes(conn).outcome)
        assert seen == 1
    with database.read() as conn:
        # What a naive watermark does: the late vote's transaction is older than the newest one seen.
        newest_seen = conn.execute(select(func.max(votes.c.recorded_in))).scalar_one()
        assert conn.execute(select(func.count()).where(votes.c.recorded_in > newest_seen)).scalar_one() == 0
        assert new_votes_since(conn, vote_set) == 1
        assert anything_new_since(conn, vote_set)
        assert len(read_votes(conn).outcome) == 2


def test_the_set_names_what_its_own_transaction_sees(database: Database) -> None:
    with database.begin() as conn:
        (annotator,), (model_a, model_b) = add_names(conn, 1, 2)
        add_vote(conn, annotator, model_a, model_b)
    with database.read() as reader:
        vote_set = read_vote_set(reader)
        with database.begin() as conn:
            add_vote(conn, annotator, model_a, model_b)
        assert len(read_votes(reader).outcome) == 1
        assert new_votes_since(reader, vote_set) == 0
    with database.read() as conn:
        assert new_votes_since(conn, vote_set) == 1
