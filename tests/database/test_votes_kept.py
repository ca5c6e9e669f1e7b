"""Going back to an earlier schema deletes no vote unasked, and coming back finds every other one."""

import pytest
from sqlalchemy import Connection, text

from app.database.engine import Database
from app.database.schema import (
    OLDEST,
    CodenamesWouldBePublicError,
    VotesWouldBeDeletedError,
    downgrade,
    known_revisions,
    require_current,
    take_back,
    upgrade,
)
from app.naming.known_names import Known
from app.policy.changes import set_policy
from app.policy.service import current_policy
from app.votes.retractions.queries import retract, votes_of
from app.votes.schemas import RankedVote, Vote
from app.votes.service import record_votes
from tests.fixtures.arena import Arena
from tests.fixtures.crowds import SENDER

PAIR = {"model_a": "a", "model_b": "b", "winner": "model_a", "annotator": "ann"}
RANKING = {"ranking": [["a"], ["b", "c"]], "annotator": "bob"}
OVERALL = [Vote(**PAIR), Vote(**PAIR, battle_id="battle")]
BY_CRITERION = [Vote(**PAIR, battle_id="battle", criterion=one) for one in ("style", "accuracy")]
RANKINGS = [RankedVote(**RANKING, battle_id="battle")]
BOTH = [RankedVote(**RANKING, criterion="style")]
RANKED = len(RANKINGS + BOTH)
KEPT = ("votes", "retractions", "retracted_votes", "decisions", "policies", "audit_log", "refits", "snapshots",
        "snapshot_models")  # fmt: skip


@pytest.fixture
def votes_of_every_kind(own_database_url: str) -> str:
    votes = [*OVERALL, *BY_CRITERION, *RANKINGS, *BOTH]
    with Database(own_database_url) as database, database.begin() as conn:
        receipts = record_votes(conn, [(vote, SENDER) for vote in votes], Known())
    assert {receipt.status for receipt in receipts} == {"created"}
    return own_database_url


def count(conn: Connection, table: str = "votes") -> int:
    return int(conn.execute(text(f"SELECT count(*) FROM {table}")).scalar_one())


def test_each_step_back_deletes_only_what_it_said(votes_of_every_kind: str) -> None:
    revisions = known_revisions()
    deleted = {}
    with Database(votes_of_every_kind) as database:
        for revision in revisions[1 : revisions.index(OLDEST) + 1]:
            with database.begin() as conn:
                before = count(conn)
                try:
                    take_back(conn, revision, delete_votes=False)
                except VotesWouldBeDeletedError as refused:
                    deleted[revision] = refused.extensions["votes"]
                    assert take_back(conn, revision, delete_votes=True) == deleted[revision]
                assert before - count(conn) == deleted.get(revision, 0)
    assert deleted == {"0038": RANKED, "0034": len(BY_CRITERION)}


def test_no_step_back_publishes_a_codename(votes_of_every_kind: str) -> None:
    with Database(votes_of_every_kind) as database:
        with database.begin() as conn:
            conn.execute(text("UPDATE models SET unreleased = true WHERE id = (SELECT min(id) FROM models)"))
        with database.begin() as conn, pytest.raises(CodenamesWouldBePublicError) as refused:
            take_back(conn, "0043", delete_votes=True)
        assert refused.value.extensions["models"] == 1
        require_current(database)


def test_several_steps_back_are_refused_before_anything_changes(votes_of_every_kind: str) -> None:
    with Database(votes_of_every_kind) as database:
        with database.begin() as conn, pytest.raises(VotesWouldBeDeletedError) as refused:
            take_back(conn, OLDEST, delete_votes=False)
        require_current(database)
        with database.begin() as conn:
            every = count(conn)
            assert take_back(conn, OLDEST, delete_votes=True) == refused.value.extensions["votes"]
            assert count(conn) == every - len(BY_CRITERION) - RANKED == len(OVERALL)


@pytest.mark.arena
def test_what_is_kept_for_ever_outlives_the_way_back(database_url: str, arena: Arena) -> None:
    with Database(database_url) as database, database.begin() as conn:
        retract(
            conn, votes_of("annotator", 1), target="annotator", target_id="1", reason="a test", retracted_by="a test"
        )
        before = {table: count(conn, table) for table in KEPT}
        take_back(conn, OLDEST, delete_votes=False)
        assert {table: count(conn, table) for table in KEPT} == before
        assert all(before.values())


def test_the_battles_of_votes_by_criteria_move_there_and_back(votes_of_every_kind: str) -> None:
    """Databases of the commits before have both in one column, and one key for them."""
    battles = "SELECT battle_id, {} FROM votes WHERE {} IS NOT NULL ORDER BY 1, 2"
    with Database(votes_of_every_kind) as database:
        downgrade(votes_of_every_kind, "0039")
        with database.read() as conn:
            assert conn.execute(text(battles.format("criterion", "criterion"))).all() == [
                ("battle", "accuracy"), ("battle", "style"), (None, "style")
            ]  # fmt: skip
        upgrade(votes_of_every_kind)
        with database.begin() as conn:
            moved = conn.execute(text(battles.format("criterion_battle_id", "criterion"))).all()
            assert moved == [(None, "battle"), (None, "battle"), (None, None)]
            again = record_votes(conn, [(vote, SENDER) for vote in (*OVERALL[1:], *BY_CRITERION)], Known())
    assert {receipt.status for receipt in again} == {"duplicate"}


def test_votes_that_rankings_replaced_count_again(own_database_url: str) -> None:
    """A ranking replaced a vote, and on another battle a vote a ranking; then both rankings are deleted."""
    first, second = ({"battle_id": battle, "annotator": "ann"} for battle in ("one", "two"))
    with Database(own_database_url) as database:
        with database.begin() as conn:
            replaced = current_policy(conn).settings.model_copy(update={"on_conflict": "replace"})
            set_policy(conn, replaced, reason="a test", created_by="a test")
            for vote in (
                Vote(**{**PAIR, **first}), RankedVote(ranking=RANKING["ranking"], **first),
                RankedVote(ranking=RANKING["ranking"], **second), Vote(**{**PAIR, **second}),
            ):  # fmt: skip
                assert record_votes(conn, [(vote, SENDER)], Known())[0].status == "created"
        with database.begin() as conn:
            assert take_back(conn, "0038", delete_votes=True) == 2
            assert conn.execute(text("SELECT battle_id, version FROM votes ORDER BY 1")).all() == [
                ("one", 0),
                ("two", 0),
            ]
            assert count(conn, "retracted_votes") == 0
