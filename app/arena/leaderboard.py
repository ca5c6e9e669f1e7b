from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection

from app.arena.snapshots import Snapshot, SnapshotHead, find_snapshot
from app.rating.results import Method
from app.store.models import count_archived, hash_models
from app.store.snapshots import read_board
from app.store.vote_sets import new_votes_since


class BoardRow(BaseModel):
    """One model on the leaderboard."""

    model_config = ConfigDict(frozen=True)

    model: str
    score: float | None = Field(description="Elo points; null where the votes do not determine it.")
    se: float | None = Field(description="Standard error of the score.")
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


class Leaderboard(BaseModel):
    """A published leaderboard and how it was made."""

    model_config = ConfigDict(frozen=True)

    snapshot: SnapshotHead
    method: Method
    models: list[BoardRow]
    archived: int = Field(description="Models that are archived and left out of `models`; ranks count them.")
    votes_not_in_board: int = Field(description="Votes recorded since; the next refit reads them.")
    diagnostics: dict[str, Any] = Field(description="How the fit went.")

    def rows(self) -> list[dict[str, Any]]:
        """Return the models as rows of a table, the columns in the order in which they are always shown."""
        return [row.model_dump() for row in self.models]


class LeaderboardVersion(BaseModel):
    """Which leaderboard an answer would show, without its rows: what a cache needs to compare."""

    model_config = ConfigDict(frozen=True)

    snapshot: Snapshot
    method: Method
    votes_not_in_board: int
    models_hash: str

    @property
    def tag(self) -> str:
        """The same for two answers only if they say the same."""
        return f"{self.snapshot.id}-{self.method}-{self.votes_not_in_board}-{self.models_hash}"


def choose_leaderboard(
    conn: Connection, *, method: Method = "am-elo", snapshot: str | None = None, as_of: datetime | None = None
) -> LeaderboardVersion:
    """Say which leaderboard is meant: of this snapshot, of the newest at a moment, or of the newest.

    Raises
    ------
    NotFoundError, NoSnapshotError
    """
    found = find_snapshot(conn, snapshot, as_of)
    return LeaderboardVersion(
        snapshot=found,
        method=method,
        votes_not_in_board=new_votes_since(conn, found.vote_set),
        models_hash=hash_models(conn),
    )


def read_leaderboard(conn: Connection, version: LeaderboardVersion) -> Leaderboard:
    """Return the leaderboard with its rows, best first within each component."""
    snapshot, method = version.snapshot, version.method
    return Leaderboard(
        snapshot=SnapshotHead.model_validate(snapshot.model_dump()),
        method=method,
        archived=count_archived(conn, snapshot.id, method),
        models=[BoardRow.model_validate(dict(row)) for row in read_board(conn, snapshot.id, method)],
        votes_not_in_board=version.votes_not_in_board,
        diagnostics=snapshot.diagnostics,
    )
