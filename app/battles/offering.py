"""Draws battles for those who ask, and records them: with the candidates of a request, or with a prompt."""

from collections import ChainMap
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from sqlalchemy import Connection

from app.answers.pool import OfferedPrompt, Pair, PooledPrompt
from app.api.problems import invalid_input
from app.battles import queries as store
from app.battles.drawing import BattleDraws, Histories, History
from app.battles.prompts import PairTakenError, SeenPairs, ShownTexts, hold_to_limit, read_shown
from app.battles.queries import BattleRow, ModelIds
from app.battles.roster import Roster
from app.battles.schemas import NewBattle
from app.database.arrays import array_text
from app.database.ids import new_id
from app.errors import ConflictError, FieldError, StableArenaError
from app.invitations.voters import Voter
from app.naming.service import resolve_annotators
from app.votes.rules import MAX_TAGS

_FEWEST = 2


class TooFewModelsError(ConflictError):
    """The arena has fewer than two models that are not archived."""

    code = "too-few-models"
    title = "A battle needs two models"


class Submission(NamedTuple):
    """A battle that is asked for: with an API key, or by a person who votes on the answers that lie here.

    `browser`: whether a browser asks, which shows HTML.
    """

    battle: NewBattle
    api_key_id: UUID | None
    voter: Voter | None = None
    browser: bool = False

    @property
    def annotator(self) -> int | str:
        """The annotator's number, or the raw key."""
        given = self.battle.annotator if self.voter is None else self.voter.annotator
        assert given is not None  # noqa: S101  the endpoint has checked it
        return given


class BattleReceipt(NamedTuple):
    """A battle that was drawn, with the names of its models."""

    id: UUID
    left: str
    right: str
    expires_at: datetime
    shown: ShownTexts | None = None
    votes_left: int | None = None


@dataclass(frozen=True)
class Preparation:
    """What is known before a group's transaction begins.

    Attributes
    ----------
    candidates : names as a request lists them → the numbers of the models, or why there can be no battle
    set_numbers : numbers of models → the number of the stored set
    annotators : raw key → number, for those on record
    prompts : id() of a submission that wants answers → the prompt that it gets, or why it gets none
    seen : what the annotators of these were shown
    votes_left : of those with a limit, by their ids
    """

    roster: Roster
    candidates: Mapping[tuple[str, ...] | None, ModelIds | StableArenaError]
    set_numbers: Mapping[ModelIds, int]
    annotators: dict[str, int]
    prompts: Mapping[int, OfferedPrompt | StableArenaError] = field(default_factory=dict)
    seen: SeenPairs = field(default_factory=SeenPairs)
    votes_left: Mapping[UUID, int] = field(default_factory=dict)

    def models(self, submission: Submission) -> ModelIds | StableArenaError:
        """Return the models to draw from, or why there can be no battle."""
        prompt = self.prompts.get(id(submission))
        if prompt is None:
            return self.candidates[names_of(submission.battle)]
        return prompt.model_ids if isinstance(prompt, OfferedPrompt) else prompt

    def number(self, submission: Submission) -> int | None:
        """Return the annotator's number; None for one who is not on record."""
        who = submission.annotator
        return who if isinstance(who, int) else self.annotators.get(who)


def find_candidates(
    names: tuple[str, ...] | None, numbers: Mapping[str, int], roster: Roster
) -> ModelIds | StableArenaError:
    """Return the models to draw from, in order, or why there can be no battle.

    `names`: as the request lists them; None for every model that battles may show.
    `numbers`: name → number, for the models on record.
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
    pools = [prepared.models(one) for one in submissions]
    asking = [one for one, pool in zip(submissions, pools, strict=True) if isinstance(pool, tuple)]
    annotators: Mapping[str, int] = prepared.annotators
    if new := {one.annotator for one in asking if prepared.number(one) is None}:
        annotators = ChainMap(resolve_annotators(conn, map(str, new)), prepared.annotators)
    policy = prepared.roster.policy.settings
    known = {number for one in asking if (number := prepared.number(one)) is not None}
    histories_of = histories.read(conn, known, policy)
    rows: dict[int, BattleRow] = {}
    voters: dict[tuple[int, UUID], Voter] = {}
    for place, (one, pool) in enumerate(zip(submissions, pools, strict=True)):
        if not isinstance(pool, tuple):
            continue
        annotator_id = one.annotator if isinstance(one.annotator, int) else annotators[one.annotator]
        history = histories_of.setdefault(annotator_id, History())
        prompt = prepared.prompts.get(id(one))
        if not isinstance(prompt, OfferedPrompt):
            rows[place] = _draw(draws, prepared, one, pool, annotator_id, history)
        elif prompt.has_more(seen := prepared.seen.by(annotator_id).get(prompt.prompt.id, ())):
            rows[place] = row = _draw(draws, prepared, one, pool, annotator_id, history, prompt.prompt, seen)
            prepared.seen.add(annotator_id, prompt.prompt.id, row.left_id, row.right_id)
            if one.voter is not None:
                voters[annotator_id, one.voter.invitation_id] = one.voter
        else:
            pools[place] = PairTakenError("another battle of this moment shows the prompt's last pair: ask again")
    expires_at, left_out = store.insert_battles(conn, list(rows.values()), seconds=seconds) if rows else (None, set())
    for place in [place for place, row in rows.items() if row.id in left_out]:
        pools[place] = PairTakenError("another battle of this moment shows this prompt and pair: ask again")
    for (annotator_id, _), voter in sorted(voters.items(), key=lambda item: item[0]):
        hold_to_limit(conn, voter, annotator_id)
    browsers = {row.id for place, row in rows.items() if submissions[place].browser}
    shown = read_shown(conn, list(rows.values()), browsers)
    return [
        pool if isinstance(pool, StableArenaError) else _receipt(rows[place], one, prepared, expires_at, shown)
        for place, (one, pool) in enumerate(zip(submissions, pools, strict=True))
    ]


def _draw(
    draws: BattleDraws,
    prepared: Preparation,
    asked: Submission,
    pool: ModelIds,
    annotator_id: int,
    history: History,
    prompt: PooledPrompt | None = None,
    seen: Collection[Pair] = (),
) -> BattleRow:
    roster, tags = prepared.roster, asked.battle.tags
    if prompt is not None:
        tags = list(dict.fromkeys((*tags, *prompt.tags(roster.policy.settings.category_tags))))[:MAX_TAGS]
    drawn = draws.draw(roster, pool, tags, history, seen)
    history.add((drawn.left_id, drawn.right_id), roster.policy.settings.battle_repeat_gap)
    shown: tuple[int | None, int | None, int | None] = (None, None, None)
    if prompt is not None:
        shown = prompt.id, prompt.answers[drawn.left_id], prompt.answers[drawn.right_id]
    return BattleRow(
        new_id(),
        annotator_id,
        drawn.left_id,
        drawn.right_id,
        prepared.set_numbers[pool],
        array_text(tags),
        drawn.drawn_by,
        drawn.propensity,
        roster.snapshot_id,
        roster.policy.version,
        asked.api_key_id,
        *shown,
        None if asked.voter is None else asked.voter.invitation_id,
    )


def names_of(battle: NewBattle) -> tuple[str, ...] | None:
    """Return the candidates that a request lists, as a key."""
    return None if battle.candidates is None else tuple(battle.candidates)


def _receipt(
    row: BattleRow,
    asked: Submission,
    prepared: Preparation,
    expires_at: datetime | None,
    shown: Mapping[UUID, ShownTexts],
) -> BattleReceipt:
    assert expires_at is not None  # noqa: S101  set where any battle was added
    names = prepared.roster.names
    left = None if asked.voter is None else prepared.votes_left.get(asked.voter.id)
    return BattleReceipt(row.id, names[row.left_id], names[row.right_id], expires_at, shown.get(row.id), left)
