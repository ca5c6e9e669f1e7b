from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, func, insert, select

from app.database.engine import Database
from app.database.ids import new_id
from app.database.tables import annotators, models, retracted_votes, retractions, votes
from app.refits.counting import over_quota
from app.refits.load import DanglingVotesError, load_fit_input
from app.refits.schemas import Refit
from app.snapshots.service import find_snapshot
from app.votes.arrays import NO_DAY, VoteDates
from tests.fixtures.crowds import RANK_EVERYTHING

DoRefit = Callable[..., Refit]
ChangePolicy = Callable[..., None]

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def add_names(conn: Connection, *keys: str) -> None:
    conn.execute(insert(annotators), [{"public_id": new_id(), "key": key} for key in keys])
    conn.execute(insert(models), [{"name": "a"}, {"name": "b"}])


def add_vote(conn: Connection, annotator_id: int = 1, outcome: int = 0, **columns: Any) -> UUID:
    vote_id = new_id()
    values = {"id": vote_id, "annotator_id": annotator_id, "model_a_id": 1, "model_b_id": 2, "outcome": outcome}
    conn.execute(insert(votes).values({**values, **columns}))
    return vote_id


def retract(conn: Connection, vote_ids: Iterable[UUID]) -> None:
    retraction_id = new_id()
    values = {"id": retraction_id, "target": "vote", "target_id": "x", "reason": "a test", "votes": 1}
    conn.execute(insert(retractions).values(retracted_by="a test", **values))
    conn.execute(
        insert(retracted_votes), [{"vote_id": vote_id, "retraction_id": retraction_id} for vote_id in vote_ids]
    )


def counted(database: Database) -> tuple[list[float], int, int]:
    """W of the votes that count, and how many are retracted and over the quota."""
    with database.read() as conn:
        fit_input = load_fit_input(conn)
    return sorted(fit_input.outcome.tolist()), fit_input.retracted, fit_input.over_quota


def test_retracted_and_replaced_votes_do_not_count(database: Database) -> None:
    with database.begin() as conn:
        add_names(conn, "k")
        void, wrong, right = add_vote(conn, outcome=0), add_vote(conn, outcome=1), add_vote(conn, outcome=2)
        retract(conn, [void])
        conn.execute(insert(retracted_votes).values(vote_id=wrong, replaced_by=right))
    assert counted(database) == ([0.5], 2, 0)


def test_live_votes_count_by_the_day_they_arrived(database: Database, store_policy: ChangePolicy) -> None:
    store_policy(max_votes_per_day=2)
    with database.begin() as conn:
        add_names(conn, "k", "l")
        for i in range(4):  # a client that says that it voted on four different days
            add_vote(conn, outcome=i % 2, received_at=NOON, voted_at=NOON - timedelta(days=i))
        add_vote(conn, outcome=2, received_at=NOON + timedelta(hours=12))  # midnight starts the next day
        add_vote(conn, 2, outcome=2, received_at=NOON)
    assert counted(database) == ([0.0, 0.5, 0.5, 1.0], 0, 2)


def test_imported_votes_count_by_the_day_they_were_cast(database: Database, store_policy: ChangePolicy) -> None:
    store_policy(max_votes_per_day=2)
    with database.begin() as conn:
        add_names(conn, "k")
        for _ in range(3):
            add_vote(conn, outcome=0, received_at=NOON, voted_at=NOON - timedelta(days=1), import_id=new_id())
            add_vote(conn, outcome=1, received_at=NOON, voted_at=NOON - timedelta(days=2), import_id=new_id())
            add_vote(conn, outcome=2, received_at=NOON, import_id=new_id())  # on no day that anyone knows
    assert counted(database) == ([0.0] * 2 + [0.5] * 3 + [1.0] * 2, 0, 2)


def test_a_retracted_vote_uses_up_no_quota(database: Database, store_policy: ChangePolicy) -> None:
    store_policy(max_votes_per_day=1)
    with database.begin() as conn:
        add_names(conn, "k")
        first = add_vote(conn, outcome=0)
        add_vote(conn, outcome=1)
        add_vote(conn, outcome=2)
        retract(conn, [first])
    assert counted(database) == ([0.0], 1, 1)


@pytest.mark.parametrize(
    ("column", "number", "what"),
    [
        ("annotator_id", 7, "annotators"),
        ("annotator_id", -7, "annotators"),
        ("model_a_id", 3, "models"),
        ("model_b_id", 9, "models"),
    ],
)
def test_votes_of_nobody_are_refused(database: Database, column: str, number: int, what: str) -> None:
    with database.begin() as conn:
        add_names(conn, "k", "l")
        add_vote(conn)
        add_vote(conn, **{column: number})
    with database.read() as conn, pytest.raises(DanglingVotesError, match=rf"^1 vote.*{what}.*number {number}$"):
        load_fit_input(conn)


def test_votes_without_any_annotator_on_record_are_refused(
    database: Database, run_refit: DoRefit, store_policy: ChangePolicy
) -> None:
    store_policy(**RANK_EVERYTHING, min_votes=0)
    with database.begin() as conn:
        add_vote(conn)
    ended = run_refit()
    assert (ended.state, ended.detail) == (
        "failed",
        "1 vote(s) name annotators that are not on record, such as number 1",
    )


def test_every_vote_is_accounted_for(
    database: Database, stored_crowd: None, run_refit: DoRefit, store_policy: ChangePolicy
) -> None:
    store_policy(min_votes=20, max_votes_per_day=115, on_low_ability="exclude")
    with database.begin() as conn:
        ids = select(votes.c.id).where(votes.c.annotator_id == 1).order_by(votes.c.id)
        mine = conn.execute(ids).scalars().all()
        retract(conn, mine[:100])  # 20 are left: not more than δ
        two = conn.execute(select(votes.c.id).where(votes.c.annotator_id == 2).limit(10)).scalars().all()
        retract(conn, two)  # 110 are left, within the quota
    assert run_refit(accept_exclusions=True).state == "done"
    with database.read() as conn:
        snapshot = find_snapshot(conn)
    account = snapshot.diagnostics["votes"]
    # Two of the 14 vote against the truth; of the honest, ten are cut to 115 votes, one keeps 110, one has 20.
    assert account == {
        "read": 1680,
        "used": 10 * 115 + 110,
        "pending": 20,
        "excluded": 2 * 115,
        "retracted": 110,
        "unsealed": 0,
        "over_quota": 12 * 5,
        "same_model": 0,
    }
    assert (snapshot.votes_read, snapshot.votes_used) == (account["read"], account["used"])
    assert account["read"] == sum(account.values()) - account["read"]


def read_after(conn: Connection, last: Any) -> int:
    """Count what a reader that keeps a watermark instead of a vote set would read next."""
    return conn.execute(select(func.count()).where(votes.c.recorded_in > last)).scalar_one()


def test_no_refit_misses_a_vote_that_commits_late(
    database: Database, stored_crowd: None, run_refit: DoRefit, store_policy: ChangePolicy
) -> None:
    with database.begin() as late:
        add_vote(late)
        with database.begin() as early:
            add_vote(early)
        assert run_refit().state == "done"
        with database.read() as conn:
            watermark = conn.execute(select(func.max(votes.c.recorded_in))).scalar_one()
            first = find_snapshot(conn)
    assert run_refit().state == "done"
    with database.read() as conn:
        second = find_snapshot(conn)
        on_record = conn.execute(select(func.count()).select_from(votes)).scalar_one()
        naive = first.votes_read + read_after(conn, watermark)
    assert second.votes_read == on_record == first.votes_read + 1
    assert naive == on_record - 1, "the naive reader would have passed: this test shows nothing"


Cast = tuple[int, int, int, int]  # annotator, day, the two halves of the id

casts = st.lists(
    st.tuples(
        st.integers(1, 4), st.sampled_from([-10_957, 0, 1, NO_DAY]), st.integers(0, 3), st.integers(0, 2**64 - 1)
    ),
    max_size=60,
    unique_by=lambda cast: cast[2:],
)


def twin_of_over_quota(votes: list[Cast], votes_per_day: int) -> list[bool]:
    over = [False] * len(votes)
    seen: Counter[tuple[int, int]] = Counter()
    for i in sorted(range(len(votes)), key=lambda i: votes[i][2:]):
        annotator, day = votes[i][:2]
        seen[annotator, day] += 1
        over[i] = day != NO_DAY and seen[annotator, day] > votes_per_day
    return over


@given(casts, st.integers(1, 5))
def test_the_first_votes_of_a_day_count(votes: list[Cast], votes_per_day: int) -> None:
    annotator, day, high, low = zip(*votes, strict=True) if votes else ((), (), (), ())
    dates = VoteDates(np.array(day, np.int32), np.array(high, np.uint64), np.array(low, np.uint64))
    assert over_quota(np.array(annotator, np.int32), dates, votes_per_day).tolist() == twin_of_over_quota(
        votes, votes_per_day
    )
