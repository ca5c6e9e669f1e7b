"""Old snapshots let go of their crowds, never of what explains a change."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from decimal import Decimal
from uuid import UUID

import numpy as np
import pytest
from sqlalchemy import Connection, insert, text

from app.database.engine import Database
from app.database.ids import new_id
from app.database.leases import acquire_lease
from app.database.tables import (
    annotators,
    decisions,
    models,
    refits,
    snapshot_annotators,
    snapshot_charts,
    snapshot_matchups,
    snapshot_models,
    snapshots,
)
from app.errors import ConflictError
from app.leaderboard.diff.service import compare_snapshots
from app.rating.sampling.pair_weights import uniform_weights
from app.rating.settings import VerdictRule
from app.rating.verdict.order import Confidence, Unscored
from app.refits.reproduce import reproduce
from app.refits.schemas import Refit
from app.review.service import split_budget
from app.snapshots.confidence import insert_confidence
from app.snapshots.pair_weights import insert_pair_weights
from app.snapshots.retention import RETENTION_LEASE, Pruner, Retention
from app.snapshots.service import find_snapshot
from tests.fixtures.joint_scores import joint_of

ALL = ("active",) * 5
UNSURE = Confidence(
    joint=joint_of([1010.0, 990.0], np.eye(2) * 900.0),
    doubled=np.ones((2, 2)),
    within=np.ones((2, 2)),
    forecasts=np.array([[10.0, np.inf, np.inf]]),
    votes=1.0,
    unscored=Unscored(),
    rule=VerdictRule(),
)
LONG_AGO = "date_trunc('month', now() - interval '200 days', 'UTC')"


@pytest.fixture
def pruner(database: Database) -> Pruner:
    return Pruner(database, Retention(timedelta(days=7), timedelta(days=90)), rows_at_a_time=2)


def publish(conn: Connection, published_at: str, standings: Sequence[str | None]) -> UUID:
    """Add a snapshot as of a moment (SQL) with one standing for each annotator, None for no row."""
    snapshot, refit = new_id(), new_id()
    conn.execute(insert(refits), {"id": refit, "state": "done", "trigger": "t", "requested_by": "t"})
    said = {"settings": {}, "diagnostics": {}, "votes_read": 1, "votes_used": 1, "vote_set": "1:1:"}
    known = {"policy_version": 1, "votes_hash": "", "code_version": "0"}
    conn.execute(insert(snapshots), {"id": snapshot, "refit_id": refit, **said, **known})
    conn.execute(text(f"UPDATE snapshots SET published_at = {published_at} WHERE id = :id"), {"id": snapshot})
    board = {"votes": 1, "wins": 1, "ties": 0, "losses": 0, "component": 0, "identified": True}
    conn.execute(insert(snapshot_models), {"snapshot_id": snapshot, "method": "am-elo", "model_id": 1, **board})
    pair = {"model_a_id": 1, "model_b_id": 2, "wins_a": 1, "ties": 0, "wins_b": 0}
    conn.execute(insert(snapshot_matchups), {"snapshot_id": snapshot, **pair})
    conn.execute(insert(snapshot_charts), {"snapshot_id": snapshot, "name": "votes", "svg": "", "description": ""})
    insert_pair_weights(conn, snapshot, {"": uniform_weights(np.array([1, 2]))})
    insert_confidence(conn, snapshot, {("", 0): UNSURE}, np.array([1, 2], dtype=np.int32))
    rows = [
        {"snapshot_id": snapshot, "annotator_id": i, "votes": 1, "rule_standing": standing, "standing": standing}
        for i, standing in enumerate(standings, 1)
        if standing is not None
    ]
    conn.execute(insert(snapshot_annotators), rows)
    return snapshot


@pytest.fixture
def crowd_of_five(database: Database) -> None:
    with database.begin() as conn:
        conn.execute(insert(models), [{"name": "a"}, {"name": "b"}])
        conn.execute(insert(annotators), [{"public_id": new_id(), "key": f"k{i}"} for i in range(5)])


def kept(database: Database, snapshot: UUID) -> list[int]:
    with database.read() as conn:
        rows = conn.execute(
            text("SELECT annotator_id FROM snapshot_annotators WHERE snapshot_id = :id ORDER BY 1"), {"id": snapshot}
        )
        return list(rows.scalars())


def count(database: Database, table: str) -> int:
    with database.read() as conn:
        return conn.execute(text(f"SELECT count(*) FROM {table}")).scalar_one()


@pytest.mark.usefixtures("crowd_of_five")
def test_which_snapshots_stay_whole(database: Database, pruner: Pruner) -> None:
    with database.begin() as conn:
        old = [publish(conn, f"{LONG_AGO} + interval '{hours} hours'", ALL) for hours in (0, 30, 60)]
        # of the last 90 days, and far enough from midnight: two on one day
        day = "date_trunc('day', now() - interval '40 days', 'UTC')"
        daily = [publish(conn, f"{day} + interval '{hours} hours'", ALL) for hours in (1, 2)]
        young = [publish(conn, f"now() - interval '{hours} hours'", ALL) for hours in (50, 2, 1)]
    assert pruner.prune() == 3
    whole = [len(kept(database, one)) == 5 for one in (*old, *daily, *young)]
    assert whole == [False, False, True, False, True, True, True, True]
    assert count(database, "snapshot_models") == 8
    for pruned in ("matchups", "pair_weights", "charts", "confidence"):
        assert count(database, f"snapshot_{pruned}") == 5
    assert count(database, "snapshots WHERE crowd_pruned_at IS NOT NULL") == 3
    assert pruner.prune() == 0


@pytest.mark.usefixtures("crowd_of_five")
def test_rows_that_tell_of_a_change_or_a_decision_stay(database: Database, pruner: Pruner) -> None:
    course = [
        ("active", "active", "active", "active", None),
        ("active", "flagged", "active", "active", "active"),
        ("active", "flagged", "active", "active", "active"),
        ("active", "active", "active", "excluded", "active"),
        ("active", "active", "active", "excluded", "active"),
        ("active", "active", "active", "excluded", "active"),
    ]
    with database.begin() as conn:
        made = [publish(conn, f"{LONG_AGO} + interval '{i} hours'", standings) for i, standings in enumerate(course)]
        publish(conn, "now()", ALL)
        conn.execute(
            insert(decisions),
            {
                "id": new_id(),
                "annotator_id": 3,
                "action": "trust",
                "reason": "r",
                "decided_by": "d",
                "snapshot_id": made[1],
            },
        )
    assert pruner.prune() == 5
    assert [kept(database, one) for one in made] == [[2], [2, 3], [2, 4], [2, 4], [], [1, 2, 3, 4, 5]]


@pytest.mark.usefixtures("crowd_of_five")
def test_pruned_one_by_one_as_they_age_it_comes_to_the_same(database: Database) -> None:
    """A service prunes each snapshot alone, its predecessor long pruned, not all at once."""
    course = [("active", "flagged"), ("active", "flagged"), ("flagged", "active"), ("flagged", "active")]
    pruner = Pruner(database, Retention(timedelta(days=7), timedelta(0)))
    made = []
    for i, standings in enumerate(course):
        with database.begin() as conn:
            made.append(publish(conn, f"{LONG_AGO} + interval '{i} hours'", standings))
        assert pruner.prune() == min(i, 1)
    assert [kept(database, one) for one in made] == [[], [1, 2], [1, 2], [1, 2]]


@pytest.mark.usefixtures("crowd_of_five")
def test_cut_short_it_is_finished_by_the_next(database: Database, pruner: Pruner) -> None:
    with database.begin() as conn:
        first, second = (publish(conn, f"{LONG_AGO} + interval '{i} hours'", ALL) for i in range(2))
        publish(conn, "now()", ALL)
        # what a process that was killed after its first transactions leaves behind
        conn.execute(text("UPDATE snapshots SET crowd_pruned_at = now() WHERE id = :id"), {"id": first})
        conn.execute(
            text("DELETE FROM snapshot_annotators WHERE snapshot_id = :id AND annotator_id < 3"), {"id": first}
        )
    assert len(kept(database, first)) == 3
    assert pruner.prune() == 0
    assert kept(database, first) == []
    assert len(kept(database, second)) == 5


@pytest.mark.usefixtures("crowd_of_five")
def test_one_process_at_a_time_and_not_after_it_was_stopped(database: Database, pruner: Pruner) -> None:
    with database.begin() as conn:
        for i in range(3):
            publish(conn, f"{LONG_AGO} + interval '{i} hours'", ALL)
        assert acquire_lease(conn, RETENTION_LEASE, "another", 60) is not None
    assert pruner.prune() == 0
    with database.begin() as conn:
        conn.execute(text("UPDATE leases SET expires_at = now()"))
    pruner.stop()
    assert pruner.prune() == 0
    assert count(database, "snapshot_annotators") == 15


def test_a_pruned_snapshot_says_so_and_can_still_be_made_again(
    database: Database, stored_crowd: None, run_refit: Callable[..., Refit]
) -> None:
    run_refit()
    run_refit()
    with database.begin() as conn:  # so that a month's end between the two does not keep the first one whole
        conn.execute(text("UPDATE snapshots SET published_at = (SELECT max(published_at) FROM snapshots)"))
        conn.execute(text("UPDATE snapshot_annotators SET standing = 'flagged' WHERE annotator_id = 3"))
        conn.execute(
            text(
                "UPDATE snapshot_annotators SET standing = 'active' WHERE annotator_id = 3 AND snapshot_id = "
                "(SELECT id FROM snapshots WHERE number = 1)"
            )
        )
    assert Pruner(database, Retention(timedelta(0), timedelta(0))).prune() == 1
    with database.read() as conn:
        first, second = find_snapshot(conn, "1"), find_snapshot(conn, "2")
        diff = compare_snapshots(conn, "1", "2")
    assert kept(database, first.id) == [3]
    with database.read() as conn:
        assert len(split_budget(conn, Decimal(100), "2").rewards) > 1
        with pytest.raises(ConflictError):  # else all of it would go to whoever's row is left
            split_budget(conn, Decimal(100), "1")
    assert first.crowd_pruned_at is not None
    assert second.crowd_pruned_at is None
    assert diff.causes.annotators is None
    assert any("changes of their standing are unknown" in line for line in diff.summary)
    again = reproduce(database, "1")
    assert again.reproduced, again.differences
    assert "score" in again.differences
    assert "ability" not in again.differences
