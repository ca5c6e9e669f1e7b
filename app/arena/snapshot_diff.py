from collections.abc import Iterator
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection

from app.arena.boards import BoardMethod
from app.arena.leaderboard import BoardRow, check_board
from app.arena.snapshots import Snapshot, SnapshotHead, find_snapshot
from app.store.boards import read_board
from app.store.snapshot_changes import count_annotator_changes


class AnnotatorChanges(BaseModel):
    """How many annotators changed their standing, and how."""

    model_config = ConfigDict(frozen=True)

    entered: int = Field(description="Count now, and did not before: enough votes, or let back in.")
    newly_excluded: int
    newly_excluded_votes: int = Field(description="Votes of the newly excluded.")
    newly_flagged: int
    cleared: int = Field(description="No longer flagged, and not excluded.")


class Causes(BaseModel):
    """What differed in the making of two snapshots: whatever moved, moved because of these."""

    model_config = ConfigDict(frozen=True)

    votes_read: int = Field(description="Votes read by the later snapshot, less those read by the earlier.")
    votes_used: int = Field(description="The same of the votes that count.")
    same_votes: bool = Field(description="Whether both read exactly the same votes.")
    annotators: AnnotatorChanges | None = Field(
        description="Null where a snapshot is so old that it has let go of its annotators' rows."
    )
    settings: dict[str, tuple[Any, Any]] = Field(description="Settings of the fit that changed: before, after.")
    policy_version: tuple[int, int]
    code_version: tuple[str, str]


class Shares(BaseModel):
    """How much of a move is due to what, in Elo points; together they are the whole move."""

    model_config = ConfigDict(frozen=True)

    policy: float = Field(description="How scores are estimated: prior, cap, base, quota, version of the service.")
    crowd: float = Field(description="Who counts: annotators in or out, by δ, the rule or decisions.")
    votes: float = Field(description="New votes and retractions.")


class ModelChange(BaseModel):
    """One model in both snapshots; null where it is missing from one or has no score."""

    model_config = ConfigDict(frozen=True)

    model: str
    kind: Literal["stayed", "entered", "left"]
    score_before: float | None = None
    score_after: float | None = None
    change: float | None = Field(None, description="Elo points.")
    beyond_interval: bool | None = Field(None, description="Whether the later score lies outside the earlier interval.")
    rank_before: int | None = None
    rank_after: int | None = None
    votes_before: int = 0
    votes_after: int = 0
    because: Shares | None = Field(
        None, description="Where causes were asked for; null where the model has no score in a state between the two."
    )


class SnapshotDiff(BaseModel):
    """What moved between two snapshots, how far, and what had changed."""

    model_config = ConfigDict(frozen=True)

    before: SnapshotHead
    after: SnapshotHead
    method: BoardMethod
    summary: list[str] = Field(description="The same in words, the most important first.")
    causes: Causes
    models: list[ModelChange] = Field(description="As ranked in the later snapshot, those that left at the end.")


def compare_snapshots(conn: Connection, before: str, after: str, *, method: BoardMethod = "am-elo") -> SnapshotDiff:
    """Say what moved from one snapshot to another, in words and numbers.

    Raises
    ------
    NotFoundError, NoSuchBoardError
    """
    old, new = find_snapshot(conn, before), find_snapshot(conn, after)
    models = list(compare_boards(_board(conn, old, method), _board(conn, new, method)))
    causes = _causes(conn, old, new)
    return SnapshotDiff(
        before=SnapshotHead.model_validate(old.model_dump()),
        after=SnapshotHead.model_validate(new.model_dump()),
        method=method,
        summary=[*tell_moves(models), *_tell_causes(causes)],
        causes=causes,
        models=models,
    )


def _board(conn: Connection, snapshot: Snapshot, method: BoardMethod) -> dict[str, BoardRow]:
    check_board(conn, snapshot, method)
    return {row["model"]: BoardRow.model_validate(dict(row)) for row in read_board(conn, snapshot.id, method)}


def compare_boards(old: dict[str, BoardRow], new: dict[str, BoardRow]) -> Iterator[ModelChange]:
    """Yield what became of each model, in the order of the later board, those that left at the end."""
    for model, row in new.items():
        past = old.get(model)
        if past is None:
            yield ModelChange(
                model=model, kind="entered", score_after=row.score, rank_after=row.rank, votes_after=row.votes
            )
            continue
        yield ModelChange(
            model=model,
            kind="stayed",
            score_before=past.score,
            score_after=row.score,
            change=None if row.score is None or past.score is None else row.score - past.score,
            beyond_interval=_outside(past, row.score),
            rank_before=past.rank,
            rank_after=row.rank,
            votes_before=past.votes,
            votes_after=row.votes,
        )
    for model, past in old.items():
        if model not in new:
            yield ModelChange(
                model=model, kind="left", score_before=past.score, rank_before=past.rank, votes_before=past.votes
            )


def _outside(past: BoardRow, score: float | None) -> bool | None:
    if score is None or past.lower is None or past.upper is None:
        return None
    return not past.lower <= score <= past.upper


def _causes(conn: Connection, old: Snapshot, new: Snapshot) -> Causes:
    names = old.settings.keys() | new.settings.keys()
    settings = {
        name: (old.settings.get(name), new.settings.get(name))
        for name in sorted(names)
        if old.settings.get(name) != new.settings.get(name)
    }
    return Causes(
        votes_read=new.votes_read - old.votes_read,
        votes_used=new.votes_used - old.votes_used,
        same_votes=new.votes_hash == old.votes_hash,
        annotators=_annotator_changes(conn, old, new),
        settings=settings,
        policy_version=(old.policy_version, new.policy_version),
        code_version=(old.code_version, new.code_version),
    )


def _annotator_changes(conn: Connection, old: Snapshot, new: Snapshot) -> AnnotatorChanges | None:
    if old.crowd_pruned_at is not None or new.crowd_pruned_at is not None:
        return None
    return AnnotatorChanges.model_validate(dict(count_annotator_changes(conn, old.id, new.id)))


def tell_moves(models: list[ModelChange]) -> Iterator[str]:
    """Say in words which models moved, the furthest first, came or went."""
    moved = [one for one in models if one.kind == "stayed" and one.rank_before != one.rank_after]
    beyond = [one for one in models if one.beyond_interval]
    for one in sorted({id(m): m for m in beyond + moved}.values(), key=lambda m: -abs(m.change or 0.0)):
        yield _tell_move(one)
    for one in models:
        if one.kind == "entered":
            yield f"{one.model} is new, at rank {one.rank_after}."
        elif one.kind == "left":
            yield f"{one.model} is no longer on the board; it was at rank {one.rank_before}."
    if not moved and not beyond and all(one.kind == "stayed" for one in models):
        largest = max((abs(one.change) for one in models if one.change is not None), default=0.0)
        yield f"No model changed its rank or left its interval; the largest change is {largest:.1f} points."


def _tell_move(one: ModelChange) -> str:
    before, after = one.rank_before or 0, one.rank_after or 0
    if after == before:
        place = f"{one.model} keeps rank {after}"
    else:
        place = f"{one.model} {'rose' if after < before else 'fell'} from rank {before} to {after}"
    if one.change is None:
        return f"{place}."
    return f"{place}, {one.change:+.1f} points, {'beyond' if one.beyond_interval else 'within'} its interval."


def _tell_causes(causes: Causes) -> Iterator[str]:
    if causes.same_votes:
        yield "Both were made from exactly the same votes."
    else:
        yield f"{_signed(causes.votes_read)} votes on record, {_signed(causes.votes_used)} that count."
    yield from _tell_annotators(causes.annotators)
    for name, (before, after) in causes.settings.items():
        yield f"The setting {name} changed from {before} to {after}."
    if causes.code_version[0] != causes.code_version[1]:
        yield f"The service's version changed from {causes.code_version[0]} to {causes.code_version[1]}."


def _tell_annotators(annotators: AnnotatorChanges | None) -> Iterator[str]:
    if annotators is None:
        yield "Which annotators changed their standing is no longer on record for both."
        return
    if annotators.newly_excluded:
        votes = f"{annotators.newly_excluded_votes:,} votes"
        yield f"{_annotators(annotators.newly_excluded)} newly excluded, with {votes}."
    if annotators.entered:
        yield f"{_annotators(annotators.entered)} count now and did not before."
    if annotators.newly_flagged or annotators.cleared:
        yield f"{_annotators(annotators.newly_flagged)} newly flagged, {annotators.cleared:,} cleared."


def _annotators(number: int) -> str:
    return f"{number:,} annotator{'s' if number != 1 else ''}"


def _signed(number: int) -> str:
    return f"{number:+,}"
