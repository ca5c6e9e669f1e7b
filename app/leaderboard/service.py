import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection

from app.leaderboard.fragility import Gap, Neighbours, read_neighbours
from app.leaderboard.queries import count_archived, find_head, read_board, read_places
from app.snapshots.freshness import CountNewVotes, Freshness, judge_freshness
from app.snapshots.methods import BoardMethod
from app.snapshots.queries import list_leaderboards
from app.snapshots.service import NoSuchBoardError, SnapshotHead, find_snapshot, missing_snapshot, parse_reference
from app.snapshots.vote_sets import new_votes_since

BoardForm = Literal["json", "csv", "parquet", "arena-catalog"]

_NAMED_TAGS = 50  # that a problem lists


class Place(BaseModel):
    """A model on another board of the same snapshot; null where it is not on it or has no score."""

    model_config = ConfigDict(frozen=True)

    rank: int | None = None
    score: float | None = None


class BoardRow(BaseModel):
    """One model on the leaderboard."""

    model_config = ConfigDict(frozen=True)

    model: str
    score: float | None = Field(description="Elo points; null where the votes do not determine it.")
    se: float | None = Field(description="Standard error of the score; of elo, over the orders of the votes.")
    lower: float | None = Field(description="Lower end of the interval; null where the votes give none.")
    upper: float | None = Field(description="Upper end of the interval; null where the votes give none.")
    rank: int | None = Field(description="1 is best, within the component.")
    best_rank: int | None = Field(description="Best rank the intervals allow.")
    worst_rank: int | None = Field(description="Worst rank the intervals allow.")
    votes: int
    wins: int
    ties: int
    losses: int
    component: int = Field(description="Models are only comparable within a component; 0 has the most votes.")
    identified: bool = Field(description="Whether the votes determine the score.")
    organization: str | None = Field(description="Who made the model, where known.")
    license: str | None
    link: str | None
    tied: bool | None = Field(
        None,
        description="Whether a handful of votes decides the order with the model above it. Null for the first, and on "
        "boards where it was not looked into: all but am-elo's of all votes.",
    )
    tied_with: str | None = Field(None, description="The model above it, where `tied`.")
    compared: dict[BoardMethod, Place] = Field({}, description="Where the boards named in `compare` have the model.")


class Board(BaseModel):
    """A published leaderboard and how it was made. It never changes, but for what is known of its models."""

    model_config = ConfigDict(frozen=True)

    snapshot: SnapshotHead
    method: BoardMethod
    tag: str | None = Field(description="Only votes with this tag are in the scores; null for all votes.")
    models: list[BoardRow]
    archived: int = Field(description="Models that are archived and left out of `models`; ranks count them.")
    diagnostics: dict[str, Any] = Field(description="How the fit went.")

    @staticmethod
    def columns() -> list[str]:
        """Return the columns that the rows always have, in their order."""
        return [*(name for name in BoardRow.model_fields if name != "compared"), "method", "tag"]

    def rows(self) -> list[dict[str, Any]]:
        """Return the models as rows of a table; after the usual columns those of the boards compared with."""
        return [
            {
                **row.model_dump(exclude={"compared"}),
                "method": self.method,
                "tag": self.tag,
                **_flattened(row.compared),
            }
            for row in self.models
        ]


class Leaderboard(Board, Freshness):
    """A published leaderboard, how it was made, and how fresh it is."""


@dataclass(frozen=True)
class LeaderboardVersion:
    """Which leaderboard an answer would show, without its rows: what a cache needs to compare.

    Attributes
    ----------
    tag : of the votes in the scores; None for all votes.
    compare : other boards whose ranks and scores are shown beside.
    models_hash : of what is known of the models now.
    """

    snapshot: SnapshotHead
    method: BoardMethod
    tag: str | None
    compare: tuple[BoardMethod, ...]
    models_hash: str
    freshness: Freshness

    @property
    def key(self) -> tuple[object, ...]:
        """The same for two boards only if they say the same."""
        return (self.snapshot.id, self.method, self.tag, self.compare, self.models_hash)

    def etag(self, form: BoardForm) -> str:
        """Return the entity tag of an answer: the same for two answers only if they say the same.

        A JSON answer also says how fresh the board is. Its age alone makes no new answer, hence a weak tag; the other
        formats are the same to the byte.
        """
        parts = [form, *self.key]
        if form == "json":
            parts += [self.freshness.model_dump(exclude={"age_seconds"})]
        digest = hashlib.sha256(repr(parts).encode("utf-8", "backslashreplace")).hexdigest()[:32]
        return f'W/"{digest}"' if form == "json" else f'"{digest}"'


def choose_leaderboard(
    conn: Connection,
    *,
    method: BoardMethod = "am-elo",
    tag: str | None = None,
    compare: Sequence[BoardMethod] = (),
    snapshot: str | None = None,
    as_of: datetime | None = None,
    count_new_votes: CountNewVotes = new_votes_since,
) -> LeaderboardVersion:
    """Say which leaderboard is meant: of this snapshot, of the newest at a moment, or of the newest.

    An empty tag is none. Whether the snapshot has the board shows when it is read.

    Raises
    ------
    NotFoundError, NoSnapshotError
    """
    named = None if snapshot is None else parse_reference(snapshot)
    head = None if snapshot is not None and named is None else find_head(conn, snapshot=named, as_of=as_of)
    if head is None:
        raise missing_snapshot(snapshot, as_of)
    return LeaderboardVersion(
        snapshot=SnapshotHead.model_validate(dict(head)),
        method=method,
        tag=tag or None,
        compare=tuple(compare),
        models_hash=head["models_hash"],
        freshness=judge_freshness(conn, head, count_new_votes),
    )


def read_leaderboard(conn: Connection, version: LeaderboardVersion) -> Leaderboard:
    """Return the leaderboard with its rows, best first within each component.

    Raises
    ------
    NoSuchBoardError
    """
    board = read_published(conn, version)
    return Leaderboard.model_validate({**dict(board), **dict(version.freshness)})


def read_published(conn: Connection, version: LeaderboardVersion) -> Board:
    """Return what was published of a leaderboard: all of it but its freshness.

    Raises
    ------
    NoSuchBoardError
    """
    snapshot, method, tag = version.snapshot, version.method, version.tag or ""
    check_board(conn, snapshot, method, *version.compare, tag=version.tag)
    diagnostics = find_snapshot(conn, str(snapshot.id)).diagnostics
    neighbours = read_neighbours(conn, diagnostics) if method == "am-elo" and not tag else Neighbours({}, {})
    others = {other: read_places(conn, snapshot.id, other, tag) for other in version.compare}
    rows = read_board(conn, snapshot.id, method, tag)
    names = {row["model_id"]: row["model"] for row in rows}
    models = [
        BoardRow(
            **row,
            **_tie(neighbours.above.get(row["model_id"]), names),
            compared={other: Place(**places.get(row["model_id"], {})) for other, places in others.items()},
        )
        for row in rows
    ]
    return Board(
        snapshot=snapshot,
        method=method,
        tag=version.tag,
        models=models,
        archived=count_archived(conn, snapshot.id, method, tag),
        diagnostics=diagnostics,
    )


def check_board(conn: Connection, snapshot: SnapshotHead, *methods: BoardMethod, tag: str | None = None) -> None:
    """Refuse boards that the snapshot does not have, naming those that it has.

    Raises
    ------
    NoSuchBoardError
    """
    kept = list_leaderboards(conn, snapshot.id)
    here = [method for method, name in kept if name == (tag or "")]
    missing = next((method for method in methods if method not in here), None)
    if missing is None:
        return
    if tag is not None and not here:
        tags = sorted({name for _, name in kept if name})
        listed = ", ".join(f"{name!r}" for name in tags[:_NAMED_TAGS]) or "none (old snapshots let go of them)"
        more = f" and {len(tags) - _NAMED_TAGS} more" if len(tags) > _NAMED_TAGS else ""
        raise NoSuchBoardError(
            f"snapshot {snapshot.number} has no board of the tag {tag!r}; its tags are {listed}{more}"
        )
    of_tag = "" if tag is None else f" of the tag {tag!r}"
    raise NoSuchBoardError(f"snapshot {snapshot.number} has no {missing} board{of_tag}; it has {', '.join(here)}")


def _tie(above: Gap | None, names: Mapping[int, str]) -> dict[str, Any]:
    """Return whether a model is tied, and with whom; a neighbour above it that is archived is as good as none."""
    if above is None or above.neighbour not in names:
        return {"tied": None, "tied_with": None}
    return {"tied": above.tied, "tied_with": names[above.neighbour] if above.tied else None}


def _flattened(compared: dict[BoardMethod, Place]) -> dict[str, Any]:
    return {
        f"{method.replace('-', '_')}_{name}": value
        for method, place in compared.items()
        for name, value in place.model_dump().items()
    }
