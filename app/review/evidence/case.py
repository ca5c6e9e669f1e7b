"""Everything on record that helps to judge one annotator, computed from that annotator's own votes."""

from collections.abc import Iterator
from datetime import UTC, datetime
from uuid import UUID

import numpy as np
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection

from app.annotators.schemas import FoundAnnotator, PastEvidence
from app.annotators.service import list_history, summarise_votes
from app.review.evidence.figures import Agreement, ModelFigures, Sides, Ties, agreement, by_model, sides, ties
from app.review.evidence.findings import Laboratory, tell
from app.review.evidence.own_votes import MOST_VOTES, OwnVotes, ability_of, own_votes
from app.review.evidence.pace import Pace, pace
from app.review.evidence.published import Published, published_board
from app.review.evidence.votes import Chance, chance
from app.review.queries import read_evidence
from app.review.reasons import reasons_in_words, strength_of
from app.snapshots.queries import newest_snapshot
from app.snapshots.service import Snapshot, find_snapshot
from app.votes.rules import WINNERS, Winner

MOST_SURPRISING = 10
HISTORY_LENGTH = 20
_UNUSUAL = 3.0  # standard deviations of chance, from which a figure is told in words
_UNLIKELY = 0.001  # the same for a probability


class SurprisingVote(BaseModel):
    """A vote that a typical annotator would hardly give."""

    model_config = ConfigDict(frozen=True)

    id: UUID
    model_a: str
    model_b: str
    winner: Winner
    voted_at: datetime | None = Field(description="As the sender said; null where nobody did.")
    chance: Chance


class Case(BaseModel):
    """What there is to say for and against an annotator, beside the newest board."""

    model_config = ConfigDict(frozen=True)

    snapshot: int = Field(description="Number of the snapshot whose board the votes are compared with.")
    summary: list[str] = Field(description="What stands out, in words; empty where nothing does.")
    strength: float = Field(description="Of the reason, as the review queue is ordered by it.")
    laboratory: Laboratory
    ability_used: float = Field(description="Ability, or shadow ability, that `own` figures go by; 1 if none is known.")
    votes_considered: int = Field(description=f"Votes that are not retracted, the last {MOST_VOTES:,} of them.")
    agreement: Agreement
    surprising: list[SurprisingVote] = Field(description="The ten that a typical annotator would give least often.")
    sides: Sides
    ties: Ties
    pace: Pace
    models: list[ModelFigures] = Field(description="The furthest from what is expected first.")
    history: list[PastEvidence] = Field(description="Ability and standing in the last 20 snapshots, newest first.")


def make_case(conn: Connection, annotator: FoundAnnotator) -> Case | None:
    """Put the case of an annotator together; None before the first snapshot.

    Reads the annotator's own votes by their index, the board, and nothing else.
    """
    newest = newest_snapshot(conn)
    if newest is None:
        return None
    snapshot = find_snapshot(conn, str(newest["id"]))
    board = published_board(conn, snapshot.id)
    votes = own_votes(conn, annotator, board)
    laboratory = tell(read_evidence(conn, snapshot.id, [annotator.annotator_id]).get(annotator.annotator_id))
    figures = agreement(votes), sides(votes), ties(votes), pace(votes), by_model(votes, board.names)
    history = list_history(conn, annotator, limit=HISTORY_LENGTH)
    nothing_left = _nothing_left(conn, annotator, history) if len(votes.id) == 0 else ()
    return Case(
        snapshot=snapshot.number,
        summary=[*nothing_left, *_reasons(annotator, laboratory, snapshot), *_tell(*figures)],
        strength=strength_of(laboratory, annotator.probability_low),
        laboratory=laboratory,
        ability_used=votes.ability,
        votes_considered=len(votes.id),
        agreement=figures[0],
        surprising=_surprising(votes, board),
        sides=figures[1],
        ties=figures[2],
        pace=figures[3],
        models=figures[4],
        history=history,
    )


def _reasons(annotator: FoundAnnotator, laboratory: Laboratory, snapshot: Snapshot) -> list[str]:
    known = annotator if ability_of(annotator) is not None else None
    return reasons_in_words(known, laboratory, snapshot.settings.get("min_ability")) if known else []


def _nothing_left(conn: Connection, annotator: FoundAnnotator, history: list[PastEvidence]) -> Iterator[str]:
    """Say what is known of somebody without votes to look at."""
    cast = summarise_votes(conn, annotator)
    if cast.first_received_at is None or cast.last_received_at is None:
        return
    first, last = cast.first_received_at.astimezone(UTC).date(), cast.last_received_at.astimezone(UTC).date()
    when = f"on {first}" if first == last else f"from {first} to {last}"
    yield (
        f"All {cast.votes:,} votes, on {cast.models:,} models and received {when}, are retracted: none is left to "
        "compare with the board."
    )
    if not history:
        yield "No snapshot has figures of the annotator any more: old ones let go of them (settings, retention)."


def _surprising(votes: OwnVotes, board: Published) -> list[SurprisingVote]:
    """Return the votes with the least chance under an ability of 1, those below the threshold only."""
    scored = np.flatnonzero(votes.scored)
    outcome = votes.outcome[scored]
    own, typical = votes.own.of(outcome), votes.typical.of(outcome)
    found = []
    for i in np.argsort(typical, kind="stable")[:MOST_SURPRISING].tolist():
        vote, how = int(scored[i]), chance(float(own[i]), float(typical[i]))
        if not how.surprising:
            break
        voted = votes.voted[vote]
        found.append(
            SurprisingVote(
                id=votes.id[vote],
                model_a=board.names[int(votes.model_a[vote])],
                model_b=board.names[int(votes.model_b[vote])],
                winner=WINNERS[int(votes.outcome[vote])],
                voted_at=None if np.isnan(voted) else datetime.fromtimestamp(float(voted), UTC),
                chance=how,
            )
        )
    return found


def _tell(agrees: Agreement, side: Sides, tie: Ties, speed: Pace, models: list[ModelFigures]) -> Iterator[str]:
    typical = agrees.expected[1]
    if agrees.accuracy is not None and typical.accuracy is not None and abs(typical.accuracy_z or 0.0) >= _UNUSUAL:
        yield (
            f"{_percent(agrees.accuracy)} of {agrees.votes:,} decided votes follow the board; of a typical annotator "
            f"{_percent(typical.accuracy)} would be expected (z = {typical.accuracy_z:+.1f})."
        )
    if side.left is not None and side.expected_left is not None and (side.p_value or 0.0) <= _UNLIKELY:
        expected = _percent(side.expected_left)
        yield f"The left model won {_percent(side.left)} of the decided votes, where {expected} would be expected."
    if tie.share is not None and tie.expected is not None and abs(tie.z or 0.0) >= _UNUSUAL:
        yield f"{_percent(tie.share)} of the votes are ties, where the crowd calls {_percent(tie.expected)}."
    if speed.longest_burst is not None and speed.hasty is not None and speed.hasty >= 0.1:  # noqa: PLR2004  one of ten
        burst = speed.longest_burst
        yield (
            f"{_percent(speed.hasty)} of the votes came within 5 seconds of the one before; the longest such run has "
            f"{burst.votes:,} votes in {burst.seconds:,.0f} seconds."
        )
    for one in models[:3]:
        if abs(one.residual or 0.0) >= _UNUSUAL:
            yield (
                f"{one.model} won {one.wins:,} of {one.decided:,} decided votes, where {one.expected_wins:,.1f} would "
                f"be expected ({one.residual:+.1f} standard deviations)."
            )


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
