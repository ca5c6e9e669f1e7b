from datetime import datetime
from typing import Any, Literal, Self
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection, RowMapping

from app.errors import NotFoundError
from app.leaderboard.matchups import queries as store
from app.leaderboard.row_files import rows_csv, rows_parquet
from app.leaderboard.service import find_row
from app.snapshots.service import SnapshotHead

Position = tuple[int, int]
"""The numbers of a pair's models, by which pairs are ordered."""


class NoMatchupsError(NotFoundError):
    """The snapshot is there and its matchups are not."""

    code = "no-matchups"
    title = "The snapshot's matchups are not kept"


class Matchup(BaseModel):
    """How one model fared against another in the counted votes, and what the board predicts."""

    model_config = ConfigDict(frozen=True)

    model_a: str
    model_b: str
    votes: int
    wins_a: int
    ties: int
    wins_b: int
    observed: float | None = Field(description="Share of the votes that model_a won, a tie half; null without votes.")
    predicted: float | None = Field(
        description="Probability that model_a wins with a typical annotator, by the scores; null where they give none."
    )
    lower: float | None = Field(description="Lower end of the prediction's interval.")
    upper: float | None = Field(description="Upper end of the prediction's interval.")

    @classmethod
    def of(cls, row: RowMapping) -> Self:
        """Return the pair as it is stored."""
        votes = row["wins_a"] + row["ties"] + row["wins_b"]
        observed = (row["wins_a"] + row["ties"] / 2) / votes if votes else None
        return cls(**row, votes=votes, observed=observed)

    def swapped(self) -> Self:
        """Return the same from the other model's side."""
        return self.model_copy(
            update={
                "model_a": self.model_b,
                "model_b": self.model_a,
                "wins_a": self.wins_b,
                "wins_b": self.wins_a,
                "observed": _other_side(self.observed),
                "predicted": _other_side(self.predicted),
                "lower": _other_side(self.upper),
                "upper": _other_side(self.lower),
            }
        )


class PlacedMatchup(BaseModel):
    """A pair and where it stands in the order of pairs."""

    matchup: Matchup
    position: Position


class MatchupVersion(BaseModel):
    """Which snapshot's matchups are meant, and what is known of its models: the same for two answers that agree."""

    model_config = ConfigDict(frozen=True)

    snapshot: SnapshotHead
    models_hash: str


def choose_matchups(
    conn: Connection, snapshot: str | UUID | None = None, as_of: datetime | None = None
) -> MatchupVersion:
    """Say which snapshot's matchups are meant: of this id or number, or the newest, or the newest at a moment.

    Raises
    ------
    NotFoundError, NoSnapshotError
    """
    row = find_row(conn, snapshot, as_of)
    return MatchupVersion(snapshot=SnapshotHead.model_validate(dict(row)), models_hash=row["models_hash"])


def list_matchups(
    conn: Connection,
    snapshot: SnapshotHead,
    *,
    model_id: int | None = None,
    after: Position | None = None,
    limit: int | None = None,
) -> list[PlacedMatchup]:
    """Return a snapshot's pairs in a fixed order, those after a pair; of one model, that model is `model_a`.

    Raises
    ------
    NoMatchupsError
    """
    rows = store.list_matchups(conn, snapshot.id, model_id=model_id, after=after, limit=limit)
    if not rows and not store.has_matchups(conn, snapshot.id):
        raise NoMatchupsError(
            f"the matchups of snapshot {snapshot.number} are not kept: those of old snapshots are dropped in time, and "
            "early versions of the service kept none"
        )
    return [
        PlacedMatchup(matchup=_seen_by(model_id, row), position=(row["model_a_id"], row["model_b_id"])) for row in rows
    ]


def write_matchups(
    conn: Connection, snapshot: SnapshotHead, form: Literal["csv", "parquet"], *, model_id: int | None = None
) -> bytes:
    """Return all pairs of a snapshot, or of one of its models, as a file.

    Raises
    ------
    NoMatchupsError
    """
    rows: list[dict[str, Any]] = [
        {**one.matchup.model_dump(), "snapshot": snapshot.number}
        for one in list_matchups(conn, snapshot, model_id=model_id)
    ]
    columns = [*Matchup.model_fields, "snapshot"]
    return rows_csv(rows, columns) if form == "csv" else rows_parquet(rows, columns)


def _seen_by(model_id: int | None, row: RowMapping) -> Matchup:
    matchup = Matchup.of(row)
    return matchup.swapped() if row["model_b_id"] == model_id else matchup


def _other_side(probability: float | None) -> float | None:
    return None if probability is None else 1.0 - probability
