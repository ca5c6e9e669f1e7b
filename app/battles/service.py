"""Battles: drawn for an annotator, sealed until the vote, skipped, shown to reviewers."""

from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from app.annotators.service import find_annotator
from app.api.problems import invalid_input
from app.auth.battle_tokens import ForgedTokenError
from app.battles import queries as store
from app.battles.drawing import BattleDraws
from app.battles.histories import Histories, History
from app.battles.queries import BattleRow, ModelIds
from app.battles.roster import Roster
from app.battles.schemas import Battle, BattleState, BattleWithCandidates, NewBattle, SkippedBattle, SkipReason
from app.database.arrays import array_text
from app.database.ids import new_id
from app.errors import ConflictError, FieldError, NotFoundError, StableArenaError
from app.naming.service import resolve_annotators
from app.votes.sealed import BattleExpiredError

Submission = tuple[NewBattle, UUID | None]
"""A battle that is asked for, and the API key that asks."""

_FEWEST = 2


class TooFewModelsError(ConflictError):
    """The arena has fewer than two models that are not archived."""

    code = "too-few-models"
    title = "A battle needs two models"


class BattleVotedError(ConflictError):
    """The battle has its vote and cannot be skipped."""

    code = "battle-voted"
    title = "The battle has its vote"


@dataclass(frozen=True)
class BattleReceipt:
    """A battle that was drawn, with the names of its models."""

    id: UUID
    left: str
    right: str
    expires_at: datetime


@dataclass(frozen=True)
class Preparation:
    """What is known before a group's transaction begins.

    Attributes
    ----------
    candidates : names as a request lists them → the numbers of the models, or why there can be no battle
    set_numbers : numbers of models → the number of the stored set
    annotators : raw key → number, for those on record
    """

    roster: Roster
    candidates: Mapping[tuple[str, ...] | None, ModelIds | StableArenaError]
    set_numbers: Mapping[ModelIds, int]
    annotators: dict[str, int]


def find_candidates(
    names: tuple[str, ...] | None, numbers: Mapping[str, int], roster: Roster
) -> ModelIds | StableArenaError:
    """Return the models to draw from, in order, or why there can be no battle.

    Parameters
    ----------
    names : as the request lists them; None for every model that battles may show
    numbers : name → number, for the models on record
    """
    if names is None:
        return roster.active if len(roster.active) >= _FEWEST else TooFewModelsError("the arena has fewer than two")
    errors = []
    for place, name in enumerate(names):
        if name not in numbers:
            errors.append(FieldError(f"/candidates/{place}", "is not the name of a model"))
        elif numbers[name] in roster.archived:
            errors.append(FieldError(f"/candidates/{place}", "is archived"))
        elif numbers[name] not in roster.active:
            errors.append(
                FieldError(f"/candidates/{place}", "is merged into another model, or what a model was before")
            )
    chosen = tuple(sorted({numbers[name] for name in names if name in numbers}))
    if not errors and len(chosen) < _FEWEST:
        errors.append(FieldError("/candidates", "must name two different models"))
    return invalid_input(tuple(errors)) if errors else chosen


def offer_battles(
    conn: Connection,
    submissions: Sequence[Submission],
    prepared: Preparation,
    *,
    draws: BattleDraws,
    histories: Histories,
    seconds: int,
) -> list[BattleReceipt | StableArenaError]:
    """Draw and record battles, each open for so many seconds, and return them in order; an error where there is none.

    An annotator that is not on record is added. Needs a READ COMMITTED transaction.
    """
    pools = [prepared.candidates[names_of(battle)] for battle, _ in submissions]
    keys = {battle.annotator for (battle, _), pool in zip(submissions, pools, strict=True) if isinstance(pool, tuple)}
    annotators: Mapping[str, int] = prepared.annotators
    if new := {key for key in keys if key not in annotators}:
        annotators = ChainMap(resolve_annotators(conn, new), prepared.annotators)
    policy = prepared.roster.policy.settings
    seen = histories.read(conn, {prepared.annotators[key] for key in keys - new}, policy)
    rows: dict[int, BattleRow] = {}
    for place, ((battle, api_key_id), pool) in enumerate(zip(submissions, pools, strict=True)):
        if not isinstance(pool, tuple):
            continue
        annotator_id = annotators[battle.annotator]
        history = seen.setdefault(annotator_id, History())
        drawn = draws.draw(prepared.roster, pool, battle.tags, history)
        history.add((drawn.left_id, drawn.right_id), policy.battle_repeat_gap)
        rows[place] = BattleRow(
            new_id(), annotator_id, drawn.left_id, drawn.right_id, prepared.set_numbers[pool],
            array_text(battle.tags), drawn.drawn_by, drawn.propensity, prepared.roster.snapshot_id,
            prepared.roster.policy.version, api_key_id,
        )  # fmt: skip
    expires_at = store.insert_battles(conn, list(rows.values()), seconds=seconds) if rows else None
    return list(_receipts(pools, rows, prepared.roster.names, expires_at))


def names_of(battle: NewBattle) -> tuple[str, ...] | None:
    """Return the candidates that a request lists, as a key."""
    return None if battle.candidates is None else tuple(battle.candidates)


def _receipts(
    pools: Sequence[ModelIds | StableArenaError],
    rows: Mapping[int, BattleRow],
    names: Mapping[int, str],
    expires_at: datetime | None,
) -> Iterable[BattleReceipt | StableArenaError]:
    for place, pool in enumerate(pools):
        if not isinstance(pool, tuple):
            yield pool
        else:
            assert expires_at is not None  # noqa: S101  set where any battle was added
            row = rows[place]
            yield BattleReceipt(row.id, names[row.left_id], names[row.right_id], expires_at)


def skip_battle(conn: Connection, battle_id: UUID, reason: SkipReason) -> SkippedBattle:
    """End an open battle without a vote. A battle that was skipped already stays as it is.

    Raises
    ------
    NotFoundError, BattleVotedError, BattleExpiredError
    """
    locked = store.lock_battle(conn, battle_id)
    match locked and locked["state"]:
        case None:
            raise _unknown(battle_id)
        case "voted":
            raise BattleVotedError("the vote was cast before: a reviewer can retract it")
        case "expired":
            raise BattleExpiredError("the battle has expired")
        case "open":
            store.skip_battle(conn, battle_id, reason)
    return SkippedBattle.model_validate(dict(_get(conn, battle_id)))


def require_own_token(token_battle: UUID, battle_id: UUID) -> None:
    """Check that a token belongs to this battle.

    Raises
    ------
    ForgedTokenError
    """
    if token_battle != battle_id:
        raise ForgedTokenError("the token is another battle's", (FieldError("/token", "is another battle's"),))


def find_battle(conn: Connection, battle_id: UUID) -> BattleWithCandidates:
    """Return a battle with the names of its candidates.

    Raises
    ------
    NotFoundError
    """
    row: dict[str, Any] = dict(_get(conn, battle_id))
    model_ids = row.pop("model_ids")
    names = store.names_of(conn, model_ids)
    return BattleWithCandidates(**row, candidate_names=sorted(names.values()))


def list_battles(
    conn: Connection, *, limit: int, before: UUID | None, annotator: str | None, state: BattleState | None
) -> list[Battle]:
    """Return battles, the newest first, of one annotator or of one state if so asked.

    Raises
    ------
    NotFoundError
        There is no such annotator.
    """
    annotator_id = None if annotator is None else find_annotator(conn, annotator).annotator_id
    rows = store.list_battles(conn, limit=limit, before=before, annotator_id=annotator_id, state=state)
    return [Battle.model_validate(dict(row)) for row in rows]


def _get(conn: Connection, battle_id: UUID) -> RowMapping:
    row = store.get_battle(conn, battle_id)
    if row is None:
        raise _unknown(battle_id)
    return row


def _unknown(battle_id: UUID) -> NotFoundError:
    return NotFoundError(f"there is no battle {battle_id}")
