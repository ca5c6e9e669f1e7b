"""What moved between two snapshots, model by model, in numbers and in words."""

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection

from app.leaderboard.diff.making import Causes, find_causes, tell_causes
from app.leaderboard.queries import read_board
from app.leaderboard.service import BoardRow, check_board
from app.snapshots.methods import BoardMethod
from app.snapshots.service import Snapshot, SnapshotHead, find_snapshot

MOST_NAMED = 5
_SHOWN = ("score", "rank", "component", "identified", "votes")

_Name = TypeVar("_Name", bound=Hashable)


class Shares(BaseModel):
    """How much of a move is due to what, in Elo points; together they are the whole move."""

    model_config = ConfigDict(frozen=True)

    policy: float = Field(description="How scores are estimated: prior, cap, base, quota, version of the service.")
    crowd: float = Field(description="Who counts: annotators in or out, by δ, the rule or decisions.")
    votes: float = Field(description="New votes and retractions.")


class ModelChange(BaseModel):
    """One model in both snapshots; null where it is missing from one or has no score.

    Ranks and points only compare within a component, whose number says nothing outside its snapshot.
    """

    model_config = ConfigDict(frozen=True)

    model: str
    kind: Literal["stayed", "entered", "left"]
    score_before: float | None = None
    score_after: float | None = None
    same_company: bool | None = Field(
        None,
        description="Whether it is compared with the same models in both: its components hold the same of the models "
        "that are on both boards. Null for a model that is on one of them.",
    )
    change: float | None = Field(None, description="Elo points; null without the same company too.")
    beyond_interval: bool | None = Field(
        None, description="Whether the later score lies outside the earlier interval; null where `change` is."
    )
    rank_before: int | None = Field(None, description="1 is best, within the component of that snapshot.")
    rank_after: int | None = None
    component_before: int | None = Field(None, description="Of the earlier snapshot, which numbers its own.")
    component_after: int | None = Field(None, description="Of the later snapshot, which numbers its own.")
    identified_before: bool | None = Field(None, description="Whether the votes determined the score.")
    identified_after: bool | None = None
    votes_before: int = 0
    votes_after: int = 0
    because: Shares | None = Field(
        None,
        description="Where causes were asked for; null where `change` is, and where the model has no score or other "
        "company in a state between the two.",
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
    causes = find_causes(conn, old, new)
    return SnapshotDiff(
        before=SnapshotHead.model_validate(old.model_dump()),
        after=SnapshotHead.model_validate(new.model_dump()),
        method=method,
        summary=[*tell_moves(models), *tell_causes(causes)],
        causes=causes,
        models=models,
    )


def _board(conn: Connection, snapshot: Snapshot, method: BoardMethod) -> dict[str, BoardRow]:
    check_board(conn, snapshot, method)
    return {row["model"]: BoardRow.model_validate(dict(row)) for row in read_board(conn, snapshot.id, method)}


def compare_boards(old: dict[str, BoardRow], new: dict[str, BoardRow]) -> Iterator[ModelChange]:
    """Yield what became of each model, in the order of the later board, those that left at the end."""
    company = keep_company(*({name: row.component for name, row in board.items()} for board in (old, new)))
    for model, row in new.items():
        past = old.get(model)
        if past is None:
            yield ModelChange(model=model, kind="entered", **_after(row))
            continue
        yield ModelChange(
            model=model,
            kind="stayed",
            same_company=model in company,
            **(_compare(past, row) if model in company else {}),
            **_before(past),
            **_after(row),
        )
    for model, past in old.items():
        if model not in new:
            yield ModelChange(model=model, kind="left", **_before(past))


def keep_company(old: Mapping[_Name, int], new: Mapping[_Name, int]) -> set[_Name]:
    """Return the models whose components hold the same of the models that are on both boards.

    Each board numbers its components as it likes: what counts is who is in them. Models that enter or leave a component
    do not change the company of those that stay together.

    Parameters
    ----------
    old, new : of each model on a board, its component there
    """
    both = {name: (old[name], new[name]) for name in old.keys() & new.keys()}
    together = Counter(both.values())
    before, after = (Counter(pair[side] for pair in both.values()) for side in (0, 1))
    return {name for name, (b, a) in both.items() if together[b, a] == before[b] == after[a]}


def _before(row: BoardRow) -> dict[str, Any]:
    return {f"{name}_before": getattr(row, name) for name in _SHOWN}


def _after(row: BoardRow) -> dict[str, Any]:
    return {f"{name}_after": getattr(row, name) for name in _SHOWN}


def _compare(past: BoardRow, row: BoardRow) -> dict[str, Any]:
    if past.score is None or row.score is None:
        return {}
    beyond = None if past.lower is None or past.upper is None else not past.lower <= row.score <= past.upper
    return {"change": row.score - past.score, "beyond_interval": beyond}


def tell_moves(models: list[ModelChange]) -> Iterator[str]:
    """Say in words which models lost or got a score or other company, which moved, the furthest first, came or went."""
    apart = any((one.component_before or 0) > 0 or (one.component_after or 0) > 0 for one in models)
    place = " in its component" if apart else ""
    stayed = [one for one in models if one.kind == "stayed"]
    rescored = [one for one in stayed if one.identified_before != one.identified_after]
    scored_alike = [one for one in stayed if one.identified_before == one.identified_after]
    compared = [one for one in scored_alike if one.same_company]
    moved = [one for one in compared if one.rank_before != one.rank_after or one.beyond_interval]
    for one in sorted(rescored, key=lambda m: bool(m.identified_after)):
        yield _tell_score(one, place)
    yield from _tell_company([one for one in scored_alike if not one.same_company])
    for one in sorted(moved, key=lambda m: -abs(m.change or 0.0)):
        yield _tell_move(one, place)
    for one in models:
        if one.kind == "entered":
            found = _tell_rank(one.rank_after, place) if one.identified_after else "without a score"
            yield f"{one.model} is new, {found}."
        elif one.kind == "left":
            yield f"{one.model} is no longer on the board; it was {_tell_rank(one.rank_before, place)}."
    if len(compared) == len(models) and not moved:
        largest = max((abs(one.change) for one in models if one.change is not None), default=0.0)
        yield f"No model changed its rank or left its interval; the largest change is {largest:.1f} points."


def _tell_rank(rank: int | None, place: str) -> str:
    return f"at rank {rank}{place}"


def _tell_score(one: ModelChange, place: str) -> str:
    if one.score_after is None:
        return f"{one.model} has no score any more."
    return f"{one.model} has a score now: {one.score_after:.1f} points, {_tell_rank(one.rank_after, place)}."


def _tell_company(parted: list[ModelChange]) -> Iterator[str]:
    """Name the models that are compared with others than before, those of one later component together."""
    for component in sorted({one.component_after or 0 for one in parted}):
        names = [one.model for one in parted if (one.component_after or 0) == component]
        if len(names) == 1:
            yield f"{names[0]} is now compared with other models: its rank and points do not compare with those before."
            continue
        named, rest = names[:MOST_NAMED], len(names) - MOST_NAMED
        listed = f"{', '.join(named)} and {rest:,} more" if rest > 0 else f"{', '.join(named[:-1])} and {named[-1]}"
        yield f"{listed} are now compared with other models: their ranks and points do not compare with those before."


def _tell_move(one: ModelChange, place: str) -> str:
    before, after = one.rank_before or 0, one.rank_after or 0
    if after == before:
        told = f"{one.model} keeps rank {after}{place}"
    else:
        told = f"{one.model} {'rose' if after < before else 'fell'} from rank {before} to {after}{place}"
    if one.change is None:
        return f"{told}, without a score."
    return f"{told}, {one.change:+.1f} points, {'beyond' if one.beyond_interval else 'within'} its interval."
