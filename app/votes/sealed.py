"""Votes on sealed battles: the token names the battle, and the battle names the models and the annotator."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from sqlalchemy import Connection

from app.auth.callers import ForeignAnnotatorError
from app.database.ids import new_id
from app.errors import ConflictError, GoneError, NotFoundError, StableArenaError
from app.votes.queries import LockedBattle, RecordedVote, end_undo, find_verdicts, insert_verdicts, lock_battles
from app.votes.schemas import SealedVoteBody, Status, VoteReceipt

UNDO_SECONDS = 15
"""How long a vote can be taken back that has not revealed the models. A page offers ten; the request takes a while."""
RETRACTED = "the vote on the battle was retracted, and the battle takes no other: ask for another battle"


class BattleExpiredError(GoneError):
    """The battle's time is over, and no vote was cast."""

    code = "battle-expired"
    title = "The battle has expired"


class BattleSkippedError(ConflictError):
    """The battle was skipped."""

    code = "battle-skipped"
    title = "The battle was skipped"


def cast_sealed_votes(
    conn: Connection, votes: Sequence[tuple[SealedVoteBody, UUID]], annotators: Mapping[str, int]
) -> list[VoteReceipt | StableArenaError]:
    """Record votes on sealed battles and return what became of each, in order; an error for one that is refused.

    A battle takes one vote. The same verdict again is a duplicate, another one a conflict: the policy's `on_conflict`
    does not apply. A receipt that is no conflict reveals the models, unless the vote wants to be able to be taken back.
    A retracted vote is not cast anew: that is a conflict too. Needs a READ COMMITTED transaction.

    `votes`: each with the battle of its token, which is genuine.
    `annotators`: raw key → number, for the annotators that the votes state and that are on record.
    """
    battles = lock_battles(conn, {battle_id for _, battle_id in votes})
    on_record = find_verdicts(conn, {battle.id for battle in battles.values() if battle.vote_id is not None})
    verdicts: list[tuple[UUID, UUID, int, bool]] = []
    revealed_now = set[UUID]()
    results: list[VoteReceipt | StableArenaError] = []
    for vote, battle_id in votes:
        battle = battles.get(battle_id)
        if battle is None:
            results.append(NotFoundError("the token's battle is not on record"))
            continue
        earlier = on_record.get(battle.id)
        if refusal := _refusal(vote, battle, annotators, voted=earlier is not None):
            results.append(refusal)
        elif earlier is not None:
            results.append(receipt := _compare(vote, battle, earlier))
            if receipt.left is not None:
                revealed_now.add(battle.id)
        else:
            added = RecordedVote(new_id(), battle.left_id, battle.right_id, vote.outcome)
            verdicts.append((battle.id, added.id, vote.outcome, vote.reveals))
            on_record[battle.id] = added
            results.append(_receipt("created", added.id, vote, battle))
    if verdicts:
        insert_verdicts(conn, verdicts, undo_seconds=UNDO_SECONDS)
    if revealed_now:
        end_undo(conn, revealed_now)
    return results


def _refusal(
    vote: SealedVoteBody, battle: LockedBattle, annotators: Mapping[str, int], *, voted: bool
) -> StableArenaError | None:
    """Return why the vote is neither added nor compared with the one on record, or None."""
    if vote.annotator is not None and annotators.get(vote.annotator) != battle.annotator_id:
        return ForeignAnnotatorError("the battle was drawn for another annotator")
    if voted:
        return None
    if battle.skip_reason is not None:
        return BattleSkippedError(f"the battle was skipped: {battle.skip_reason}")
    return BattleExpiredError("the battle has expired: ask for another one") if battle.expired else None


def _receipt(status: Status, vote_id: UUID, vote: SealedVoteBody, battle: LockedBattle) -> VoteReceipt:
    left, right = (battle.left, battle.right) if vote.reveals else (None, None)
    return VoteReceipt(status, vote_id, left=left, right=right)


def _compare(vote: SealedVoteBody, battle: LockedBattle, earlier: RecordedVote) -> VoteReceipt:
    if earlier.retracted:
        return VoteReceipt("conflict", earlier.id, RETRACTED)
    if vote.outcome == earlier.outcome:
        return _receipt("duplicate", earlier.id, vote, battle)
    return VoteReceipt("conflict", earlier.id, "the annotator has voted in this battle already, with another verdict")
