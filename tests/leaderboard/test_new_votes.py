from sqlalchemy import Connection, insert, text

from app.database.engine import Database
from app.database.ids import new_id
from app.database.tables import votes
from app.snapshots.vote_sets import NewVotes, new_votes_since, read_vote_set


def record(conn: Connection, number: int) -> None:
    row = {"annotator_id": 1, "model_a_id": 1, "model_b_id": 2, "outcome": 0}
    for _ in range(number):
        conn.execute(insert(votes).values(id=new_id(), **row))


def test_counts_what_is_counted_from_the_start(database: Database) -> None:
    counter = NewVotes()
    with database.read() as conn:
        since = read_vote_set(conn)
    with database.begin() as late:
        record(late, 1)  # begun before the others, committed after them
        for number in (3, 0, 5):
            with database.begin() as conn:
                record(conn, number)
            with database.read() as conn:
                assert counter.since(conn, since) == new_votes_since(conn, since)
    with database.read() as conn:
        assert counter.since(conn, since) == new_votes_since(conn, since) == 9
        assert counter.since(conn, read_vote_set(conn)) == 0


def test_a_view_from_before_the_last_count_counts_nothing_twice(database: Database) -> None:
    counter = NewVotes()
    with database.read() as conn:
        since = read_vote_set(conn)
    with database.read() as before:
        read_vote_set(before)  # the view is taken by the first statement
        with database.begin() as conn:
            record(conn, 4)
        with database.read() as conn:
            assert counter.since(conn, since) == 4
        assert counter.since(before, since) == 4
    with database.read() as conn:
        assert counter.since(conn, since) == 4


def test_votes_restored_from_another_cluster_are_counted_once(database: Database) -> None:
    counter = NewVotes()
    with database.begin() as conn:
        record(conn, 2)
        conn.execute(text("UPDATE votes SET recorded_in = '999999999999'"))
    with database.read() as conn:
        since = read_vote_set(conn)
    with database.begin() as conn:
        record(conn, 1)
    for _ in range(3):
        with database.read() as conn:
            assert counter.since(conn, since) == new_votes_since(conn, since) == 3


def test_no_vote_is_looked_at_twice(database: Database) -> None:
    counter = NewVotes()
    with database.read() as conn:
        since = read_vote_set(conn)
    with database.begin() as conn:
        record(conn, 7)
    with database.read() as conn:
        assert counter.since(conn, since) == 7
    with database.begin() as conn:
        conn.execute(text("DELETE FROM votes"))  # never done: it shows what is remembered
    with database.read() as conn:
        assert counter.since(conn, since) == 7
