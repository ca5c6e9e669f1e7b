"""The results of models against each other in the counted votes of a snapshot: a list, a file, a grid."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

from pydantic import Field
from sqlalchemy import Connection

from app.api.pagination import Page
from app.errors import BadInputError, FieldError, NotFoundError
from app.leaderboard import queries as store
from app.leaderboard.row_files import ROW_FILES
from app.models.service import find_contestant
from app.schemas import FrozenModel
from app.snapshots.differences import MEANING, WORDS, Differences, Word, read_differences
from app.snapshots.queries import list_placed_models
from app.snapshots.schemas import SnapshotHead

MOST_CHOSEN = 40
FEWEST_VOTES = 10
"""A share of fewer votes says more of chance than of the models: pages do not show it."""
Position = tuple[int, int]
"""A pair's place in the order of pairs: the numbers of its models."""


class Matchup(FrozenModel):
    """Results of one model against another in the counted votes, and the prediction of the leaderboard."""

    model_a: str
    model_b: str
    votes: int
    wins_a: int
    ties: int
    wins_b: int
    observed: float | None = Field(description="Share of votes that model_a won; a tie is half; null without votes.")
    predicted: float | None = Field(
        description="Probability that model_a wins with a typical annotator, by the scores; null where one is missing."
    )
    lower: float | None = Field(
        description="Lower end of the prediction's interval; where a model has no score, a one-sided bound."
    )
    upper: float | None = Field(description="Upper end, likewise.")
    difference: Word | None = Field(None, description=f"What model_a is beside model_b, by the scores. {MEANING}")

    @classmethod
    def of(cls, row: Mapping[str, Any], differences: Differences | None) -> Self:
        """Return the pair of a stored row."""
        votes = row["wins_a"] + row["ties"] + row["wins_b"]
        observed = (row["wins_a"] + row["ties"] / 2) / votes if votes else None
        word = differences and differences.between(row["model_a"], row["model_b"])
        return cls(**row, votes=votes, observed=observed, difference=word)

    def swapped(self) -> Self:
        """Return the pair from the side of the other model."""
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
                "difference": self.difference and WORDS[-1 - WORDS.index(self.difference)],
            }
        )


class MatchupPage(Page[Matchup]):
    """Pairs of models in the counted votes of one snapshot."""

    snapshot: SnapshotHead


def _other_side(probability: float | None) -> float | None:
    return None if probability is None else 1.0 - probability


class NoMatchupsError(NotFoundError):
    """The snapshot exists but its matchups do not."""

    code = "no-matchups"
    title = "The snapshot's matchups are not kept"


def list_matchups(
    conn: Connection,
    snapshot: SnapshotHead,
    *,
    model_id: int | None = None,
    among: Collection[int] | None = None,
    after: Position | None = None,
    limit: int | None = None,
) -> list[tuple[Matchup, Position]]:
    """Return a snapshot's pairs in a fixed order, those after a position. With `model_id`, that model is `model_a`.

    With `among`, both models of a pair are among these numbers. Raises NoMatchupsError.
    """
    differences = read_differences(conn, snapshot.id)
    rows = store.list_matchups(conn, snapshot.id, model_id=model_id, among=among, after=after, limit=limit)
    found = [(seen_by(model_id, row, differences), (row["model_a_id"], row["model_b_id"])) for row in rows]
    if not found:
        _require_matchups(conn, snapshot)
    return found


def _require_matchups(conn: Connection, snapshot: SnapshotHead) -> None:
    if not store.has_matchups(conn, snapshot.id):
        raise NoMatchupsError(
            f"snapshot {snapshot.number} has no matchups: old snapshots drop them, and early versions of the service "
            "kept none"
        )


def write_matchups(
    conn: Connection, snapshot: SnapshotHead, form: Literal["csv", "parquet"], *, model_id: int | None = None
) -> bytes:
    """Return all pairs of a snapshot, or of one of its models, as a file. Raises NoMatchupsError."""
    _require_matchups(conn, snapshot)
    differences = read_differences(conn, snapshot.id)
    rows = (
        {**seen_by(model_id, row, differences).model_dump(), "snapshot": snapshot.number}
        for row in store.list_matchups(conn, snapshot.id, model_id=model_id)
    )
    columns = [*Matchup.model_fields, "snapshot"]
    return ROW_FILES[form](rows, columns)


def seen_by(model_id: int | None, row: Mapping[str, Any], differences: Differences | None) -> Matchup:
    """Return the pair of a stored row, from the side of one of its models where that is asked for."""
    matchup = Matchup.of(row, differences)
    return matchup.swapped() if row["model_b_id"] == model_id else matchup


@dataclass(frozen=True)
class MatchupGrid:
    """Models in the order of the am-elo leaderboard of all votes, and their results against each other.

    Attributes
    ----------
    models : those that were chosen
    start : the place of the first on the leaderboard, from 1; None where they were chosen by name
    known : all models of the leaderboard
    pairs : the result of every pair with votes or a prediction, in both orders, from the side of the first
    """

    models: list[str]
    start: int | None
    known: list[str]
    pairs: Mapping[tuple[str, str], Matchup]


def read_grid(
    conn: Connection, snapshot: SnapshotHead, *, names: Sequence[str] = (), start: int = 1, size: int
) -> MatchupGrid:
    """Return the models with these names, or `size` models from a place on the leaderboard on, against each other.

    Raises NotFoundError: no model has the name.
    Raises BadInputError: more than `MOST_CHOSEN` names.
    Raises NoMatchupsError.
    """
    if len(names) > MOST_CHOSEN:
        raise BadInputError(f"choose at most {MOST_CHOSEN} models", (FieldError("/model", "is given too often"),))
    rows = list_placed_models(conn, snapshot.id)
    if names:
        wanted = {find_contestant(conn, name, public=True).model_id for name in names}
        chosen = [row for row in rows if row["model_id"] in wanted]
    else:
        chosen = list(rows[start - 1 : start - 1 + size])
    placed = list_matchups(conn, snapshot, among=[row["model_id"] for row in chosen])
    pairs = {(one.model_a, one.model_b): one for found, _ in placed for one in (found, found.swapped())}
    return MatchupGrid(
        [row["model"] for row in chosen], None if names else start, [row["model"] for row in rows], pairs
    )
