"""The results of some models against each other, as a table has them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from app.errors import BadInputError, FieldError
from app.leaderboard import queries as store
from app.leaderboard.matchups.schemas import Matchup
from app.leaderboard.matchups.service import list_matchups
from app.models.service import find_contestant
from app.snapshots.schemas import SnapshotHead

MOST_CHOSEN = 40


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

    Raises
    ------
    NotFoundError
        No model has the name.
    BadInputError
        More than `MOST_CHOSEN` names.
    NoMatchupsError
    """
    if len(names) > MOST_CHOSEN:
        raise BadInputError(f"choose at most {MOST_CHOSEN} models", (FieldError("/model", "is given too often"),))
    rows = store.read_rows(conn, snapshot.id, "am-elo")
    if names:
        wanted = {find_contestant(conn, name).model_id for name in names}
        chosen = [row for row in rows if row["model_id"] in wanted]
    else:
        chosen = list(rows[start - 1 : start - 1 + size])
    placed = list_matchups(conn, snapshot, among=[row["model_id"] for row in chosen])
    pairs = {(one.model_a, one.model_b): one for placed_one in placed for one in _both(placed_one.matchup)}
    return MatchupGrid(
        [row["model"] for row in chosen], None if names else start, [row["model"] for row in rows], pairs
    )


def _both(matchup: Matchup) -> tuple[Matchup, Matchup]:
    return matchup, matchup.swapped()
