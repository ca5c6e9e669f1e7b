"""Battles on record: ended without a vote, taken back, shown to reviewers."""

from typing import Any
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from app.annotators.service import find_annotator
from app.auth.battle_tokens import ForgedTokenError
from app.battles import queries as store
from app.battles.schemas import Battle, BattleState, BattleWithCandidates, SkippedBattle, SkipReason, UndoneVote
from app.errors import ConflictError, FieldError, GoneError, found
from app.models.queries import read_model_names
from app.votes.retractions.service import take_back_vote
from app.votes.sealed import UNDO_SECONDS, BattleExpiredError


class BattleVotedError(ConflictError):
    """The battle has its vote and cannot be skipped."""

    code = "battle-voted"
    title = "The battle has its vote"


class ModelsRevealedError(ConflictError):
    """The vote has named the models: who knows them may not choose which votes stay."""

    code = "models-revealed"
    title = "The vote has revealed the models"


class UndoTooLateError(GoneError):
    """The vote was cast too long ago to be taken back by its annotator."""

    code = "undo-too-late"
    title = "The vote can no longer be taken back"


def skip_battle(conn: Connection, battle_id: UUID, reason: SkipReason) -> SkippedBattle:
    """End an open battle without a vote. A battle that was skipped already stays as it is.

    Raises NotFoundError, BattleVotedError or BattleExpiredError.
    """
    locked = _known(store.lock_battle(conn, battle_id), battle_id)
    match locked["state"]:
        case "voted":
            raise BattleVotedError("the vote was cast before: a reviewer can retract it")
        case "expired":
            raise BattleExpiredError("the battle has expired")
        case "open":
            store.skip_battle(conn, battle_id, reason)
    return SkippedBattle.model_validate(dict(_known(store.get_battle(conn, battle_id), battle_id)))


def undo_vote(conn: Connection, battle_id: UUID) -> UndoneVote:
    """Retract the vote on a battle, if it was cast some seconds ago. A vote that was retracted already stays so.

    Raises NotFoundError, ConflictError, ModelsRevealedError or UndoTooLateError.
    """
    locked = _known(store.lock_battle(conn, battle_id), battle_id)
    if locked["vote_id"] is None:
        raise ConflictError("the battle has no vote")
    if locked["can_undo"] is None:
        raise ModelsRevealedError("the vote has named the models: a reviewer can still retract it")
    if not locked["can_undo"]:
        raise UndoTooLateError(f"a vote can be taken back for {UNDO_SECONDS} seconds: a reviewer can still retract it")
    take_back_vote(conn, locked["vote_id"])
    return UndoneVote(battle_id=battle_id, vote_id=locked["vote_id"])


def require_own_token(token_battle: UUID, battle_id: UUID) -> None:
    """Check that a token belongs to this battle. Raises ForgedTokenError."""
    if token_battle != battle_id:
        raise ForgedTokenError("the token is another battle's", (FieldError("/token", "is another battle's"),))


def find_battle(conn: Connection, battle_id: UUID) -> BattleWithCandidates:
    """Return a battle with the names of its candidates. Raises NotFoundError."""
    row: dict[str, Any] = dict(_known(store.get_battle(conn, battle_id), battle_id))
    names = read_model_names(conn, row.pop("model_ids"))
    return BattleWithCandidates(**row, candidate_names=sorted(names.values()))


def list_battles(
    conn: Connection, *, limit: int, before: UUID | None, annotator: str | None, state: BattleState | None
) -> list[Battle]:
    """Return battles, the newest first, of one annotator or of one state if so asked.

    Raises NotFoundError: there is no such annotator.
    """
    annotator_id = None if annotator is None else find_annotator(conn, annotator).annotator_id
    rows = store.list_battles(conn, limit=limit, before=before, annotator_id=annotator_id, state=state)
    return [Battle.model_validate(dict(row)) for row in rows]


def _known(battle: RowMapping | None, battle_id: UUID) -> RowMapping:
    return found(battle, f"battle {battle_id}")
