"""The prompts of battles whose answers lie here: which one each annotator gets, and how many votes are left."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from sqlalchemy import ColumnElement, Connection, func, select, text

from app.answers.pool import OfferedPrompt, Pair, Seen
from app.answers.queries import StoredText, read_texts
from app.battles.queries import BattleRow
from app.database.tables import annotators, battles
from app.errors import ConflictError, GoneError, UnavailableError
from app.invitations.voters import Voter

_MOST_READ = 100
_RECENT = """
SELECT recent.* FROM unnest(%(annotators)b::int[]) AS wanted(annotator_id)
CROSS JOIN LATERAL (
    SELECT b.annotator_id, b.prompt_id, least(b.left_id, b.right_id), greatest(b.left_id, b.right_id)
    FROM battles AS b WHERE b.annotator_id = wanted.annotator_id ORDER BY b.id DESC LIMIT %(most)s
) AS recent
"""
_SEEN = """
SELECT b.annotator_id, b.prompt_id, least(b.left_id, b.right_id), greatest(b.left_id, b.right_id)
FROM unnest(%(annotators)b::int[], %(prompts)b::int[]) AS wanted(annotator_id, prompt_id)
JOIN battles AS b ON b.annotator_id = wanted.annotator_id AND b.prompt_id = wanted.prompt_id
"""
# The newest battles stay, as many as the annotator may vote on.
_CLOSE = text(
    """
    UPDATE battles SET expires_at = now() WHERE id IN (
        SELECT id FROM battles
        WHERE annotator_id = :annotator AND invitation_id = :invitation AND vote_id IS NULL AND skip_reason IS NULL
            AND expires_at > now()
        ORDER BY id DESC OFFSET :kept
    )
    """
)


class NothingLeftError(ConflictError):
    """The annotator has seen every prompt with every pair of answers, or there are no answers."""

    code = "nothing-left"
    title = "There is nothing left to show"


class PairTakenError(UnavailableError):
    """Another battle of the same moment shows the annotator this prompt and pair: the next one is drawn anew."""

    code = "pair-taken"
    title = "Another battle of the same moment shows this"


class VotesUsedUpError(GoneError):
    """The annotator has cast as many votes as the invitation allows, those that were taken back too."""

    code = "votes-used-up"
    title = "All votes of the invitation are cast"


class ShownTexts(NamedTuple):
    """What a battle shows, named as its answer names them: the prompt and both answers."""

    prompt: StoredText
    left_answer: StoredText
    right_answer: StoredText


@dataclass
class SeenPairs:
    """What annotators were shown, by their numbers; it grows with the battles of a group.

    Of those in `in_part`, only the last battles are known.
    """

    in_part: frozenset[int] = frozenset()
    of: dict[int, dict[int, set[Pair]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(set)))

    def by(self, annotator_id: int | None) -> Seen:
        """Return what an annotator was shown; nothing for one who is not on record."""
        return {} if annotator_id is None or annotator_id not in self.of else self.of[annotator_id]

    def add(self, annotator_id: int, prompt_id: int, one: int, other: int) -> None:
        """Note that an annotator is shown two models' answers to a prompt."""
        self.of[annotator_id][prompt_id].add((min(one, other), max(one, other)))


def read_recent(conn: Connection, annotator_ids: Collection[int]) -> SeenPairs:
    """Return what annotators were shown in their last battles, with a vote or without."""
    rows = conn.exec_driver_sql(_RECENT, {"annotators": list(annotator_ids), "most": _MOST_READ}).all()
    battles_of = Counter(row.annotator_id for row in rows)
    seen = SeenPairs(frozenset(number for number, read in battles_of.items() if read == _MOST_READ))
    for annotator_id, prompt_id, one, other in rows:
        if prompt_id is not None:
            seen.add(annotator_id, prompt_id, one, other)
    return seen


def read_seen(conn: Connection, wanted: Iterable[tuple[int | None, Sequence[OfferedPrompt]]], seen: SeenPairs) -> None:
    """Add what annotators were shown of some prompts in all their battles, for those of which it is known in part."""
    if pairs := {(number, one.prompt.id) for number, offered in wanted if number in seen.in_part for one in offered}:
        annotators, prompts = zip(*pairs, strict=True)
        for row in conn.exec_driver_sql(_SEEN, {"annotators": list(annotators), "prompts": list(prompts)}):
            seen.add(*row)


def read_votes_left(conn: Connection, voters: Iterable[tuple[Voter, int | None]]) -> dict[UUID, int]:
    """Return how many votes those have left, by their ids, whose invitations limit them.

    `voters`: each with the annotator's number, None for one who is not on record.
    """
    left: dict[UUID, int] = {}
    for voter, annotator_id in voters:
        if voter.max_votes is not None:
            left[voter.id] = voter.max_votes - _count_votes(conn, voter, annotator_id)
    return left


def _count_votes(conn: Connection, voter: Voter, annotator_id: int | None) -> int:
    mine = (*_battles_of(voter, annotator_id), battles.c.vote_id.is_not(None))
    return conn.execute(select(func.count()).where(*mine)).scalar_one()


def _battles_of(voter: Voter, annotator_id: int | None) -> tuple[ColumnElement[bool], ...]:
    return battles.c.annotator_id == annotator_id, battles.c.invitation_id == voter.invitation_id


def hold_to_limit(conn: Connection, voter: Voter, annotator_id: int) -> None:
    """End the voter's open battles but for the newest: with all that are open, no more votes than allowed are cast.

    Draws and votes of this voter at the same time wait for each other, so it comes after the battles are recorded.
    """
    if voter.max_votes is None:
        return
    c = battles.c
    mine = _battles_of(voter, annotator_id)
    conn.execute(select(annotators.c.id).where(annotators.c.id == annotator_id).with_for_update(key_share=True))
    waiting = (c.vote_id.is_(None), c.skip_reason.is_(None), c.expires_at > func.now() - timedelta(minutes=1))
    conn.execute(select(c.id).where(*mine, *waiting).order_by(c.id).with_for_update())
    kept = max(voter.max_votes - _count_votes(conn, voter, annotator_id), 0)
    conn.execute(_CLOSE, {"annotator": annotator_id, "invitation": voter.invitation_id, "kept": kept})


def read_shown(conn: Connection, rows: Sequence[BattleRow], browsers: Collection[UUID]) -> Mapping[UUID, ShownTexts]:
    """Return what the battles show that show something, to browsers as HTML."""
    found: dict[UUID, ShownTexts] = {}
    for html in (False, True):
        shown = [row for row in rows if row.prompt_id is not None and (row.id in browsers) == html]
        if not shown:
            continue
        sides = {number for row in shown for number in (row.left_answer_id, row.right_answer_id) if number is not None}
        asked = read_texts(conn, "prompts", {row.prompt_id for row in shown if row.prompt_id is not None}, html=html)
        answered = read_texts(conn, "answers", sides, html=html)
        for row in shown:
            assert row.prompt_id and row.left_answer_id and row.right_answer_id  # noqa: S101, PT018  all three or none
            found[row.id] = ShownTexts(
                asked[row.prompt_id], answered[row.left_answer_id], answered[row.right_answer_id]
            )
    return found
