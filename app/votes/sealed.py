"""Votes on sealed battles: the token names the battle, and the battle names the models and the annotator."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from sqlalchemy import Connection

from app.auth.tokens import ForeignAnnotatorError
from app.database.ids import new_id
from app.errors import ConflictError, GoneError, NotFoundError, StableArenaError
from app.votes.queries import (
    LockedBattle,
    Verdict,
    VerdictOnRecord,
    find_verdicts,
    insert_verdicts,
    lock_battles,
)
from app.votes.schemas import SealedVoteBody, VoteReceipt

RETRACTED = "the vote on the battle was retracted after it had revealed the models: ask for another battle"


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
    does not apply. Each receipt that is no conflict reveals the models, so a retracted vote is not cast anew: that is a
    conflict too. Needs a READ COMMITTED transaction.

    `votes`: each with the battle of its token, which is genuine.
    `annotators`: raw key → number, for the annotators that the votes state and that are on record.
    """
    battles = lock_battles(conn, {battle_id for _, battle_id in votes})
    on_record = find_verdicts(conn, {battle.id for battle in battles.values() if battle.vote_id is not None})
    verdicts: list[Verdict] = []
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
            results.append(_compare(vote, battle, earlier))
        else:
            verdict = Verdict(battle.id, new_id(), vote.outcome)
            verdicts.append(verdict)
            on_record[battle.id] = VerdictOnRecord(verdict.vote_id, vote.outcome, retracted=False)
            results.append(VoteReceipt("created", verdict.vote_id, left=battle.left, right=battle.right))
    if verdicts:
        insert_verdicts(conn, verdicts)
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


def _compare(vote: SealedVoteBody, battle: LockedBattle, earlier: VerdictOnRecord) -> VoteReceipt:
    if earlier.retracted:
        return VoteReceipt("conflict", earlier.id, RETRACTED)
    if vote.outcome == earlier.outcome:
        return VoteReceipt("duplicate", earlier.id, left=battle.left, right=battle.right)
    return VoteReceipt("conflict", earlier.id, "the annotator has voted in this battle already, with another verdict")
