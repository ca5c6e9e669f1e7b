"""Several replicas on one database: queues of their own, one record."""

import asyncio
import threading
from collections import Counter
from uuid import UUID

import pytest
from sqlalchemy import text

from app.battles.offering import BattleReceipt, Submission
from app.battles.queue import BattleQueue
from app.battles.schemas import NewBattle
from app.battles.service import BattleVotedError, skip_battle
from app.database.engine import Database
from app.errors import StableArenaError
from app.naming.known_names import KnownNames
from app.votes.schemas import SEALED_WINNERS, SealedVoteBody, SealedWinner, VoteReceipt
from app.votes.sealed import BattleSkippedError
from app.votes.service import VoteQueue

REPLICAS = 3


def battle_queue(database: Database) -> BattleQueue:
    names = KnownNames(database)
    return BattleQueue(database, token_seconds=3600, queue_size=1000, commit_size=7, names=names)


def verdict(winner: SealedWinner) -> SealedVoteBody:
    return SealedVoteBody(token="genuine", winner=winner)  # noqa: S106  no secret


async def draw(database: Database, count: int) -> list[BattleReceipt]:
    """Ask every replica for so many battles at once."""
    queues = [battle_queue(database) for _ in range(REPLICAS)]
    asked = [(queue, Submission(NewBattle(annotator=f"k{i}"), None)) for queue in queues for i in range(count)]
    battles = await asyncio.gather(*(queue.submit(submission) for queue, submission in asked))
    for queue in queues:
        await queue.close()
    return battles


@pytest.fixture
def arena(database: Database) -> Database:
    with database.begin() as conn:
        conn.execute(text("INSERT INTO models (name) SELECT 'm' || i FROM generate_series(1, 12) AS i"))
    return database


def test_no_battle_is_given_twice_and_no_token_counts_twice(arena: Database) -> None:
    async def run() -> None:
        battles = await draw(arena, 30)
        ids = {battle.id for battle in battles}
        assert len(ids) == 30 * REPLICAS
        queues = [VoteQueue(arena, queue_size=1000, commit_size=7) for _ in range(REPLICAS)]
        # Every replica gets a vote on every battle at once, each with another verdict.
        attempts = [
            queue.submit((verdict(winner), id_))
            for id_ in ids
            for winner, queue in zip(SEALED_WINNERS, queues, strict=False)
        ]
        results = await asyncio.gather(*attempts, return_exceptions=True)
        for queue in queues:
            await queue.close()
        assert not [error for error in results if isinstance(error, BaseException)]
        found = Counter(result.status for result in results if isinstance(result, VoteReceipt))
        assert found == {"created": len(ids), "conflict": (REPLICAS - 1) * len(ids)}
        with arena.read() as conn:
            assert set(conn.execute(text("SELECT sealed_battle_id FROM votes")).scalars()) == ids

    asyncio.run(run())


def test_a_battle_ends_by_a_vote_or_by_a_skip(arena: Database) -> None:
    """Both at once, many times: never both, never none."""
    outcomes: dict[UUID, list[str]] = {}

    async def run() -> None:
        battles = await draw(arena, 10)
        queue = VoteQueue(arena, queue_size=1000, commit_size=1)
        ends: dict[UUID, list[str]] = {battle.id: [] for battle in battles}

        def skip_all() -> None:
            for battle in battles:
                try:
                    with arena.begin() as conn:
                        skip_battle(conn, battle.id, "skip")
                except BattleVotedError:
                    continue
                ends[battle.id].append("skipped")

        skipping = threading.Thread(target=skip_all)
        skipping.start()
        for battle in reversed(battles):
            try:
                await queue.submit((verdict("left"), battle.id))
            except BattleSkippedError:
                continue
            ends[battle.id].append("voted")
        await asyncio.to_thread(skipping.join)
        await queue.close()
        outcomes.update(ends)

    asyncio.run(run())
    assert {len(ends) for ends in outcomes.values()} == {1}
    with arena.read() as conn:
        rows = conn.execute(text("SELECT id, vote_id IS NULL AS skipped FROM battles")).all()
    assert {row.id: ["skipped" if row.skipped else "voted"] for row in rows} == outcomes


def test_a_refused_battle_does_not_touch_its_group(arena: Database) -> None:
    async def run() -> list[BattleReceipt | BaseException]:
        queue = battle_queue(arena)
        wishes: list[list[str] | None] = [None, ["m1", "unknown"], ["m1", "m2"], ["m3", "m3"]]
        asked = [queue.submit(Submission(NewBattle(annotator="k", candidates=wish), None)) for wish in wishes]
        results = await asyncio.gather(*asked, return_exceptions=True)
        await queue.close()
        return results

    first, unknown, listed, one_only = asyncio.run(run())
    assert isinstance(first, BattleReceipt)
    assert isinstance(listed, BattleReceipt)
    assert {listed.left, listed.right} == {"m1", "m2"}
    assert isinstance(unknown, StableArenaError)
    assert isinstance(one_only, StableArenaError)
