"""Boards in the shape of LMArena's arena-catalog, which other programs read: category → model → rating."""

from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, ConfigDict, RootModel
from sqlalchemy import Connection, RowMapping

from app.leaderboard.queries import read_board
from app.leaderboard.service import LeaderboardVersion, read_published
from app.snapshots.queries import list_leaderboards

WHOLE = "full"
"""The category of all votes, by arena-catalog's custom; it hides a tag of this name, whose board `tag=full` shows."""


class CatalogRating(BaseModel):
    """One model; the ends of its interval are null where there are none."""

    model_config = ConfigDict(frozen=True)

    rating: float
    rating_q975: float | None
    rating_q025: float | None


Category = dict[str, CatalogRating]


class ArenaCatalog(RootModel[dict[str, Category]]):
    """Category to model to rating."""


def make_catalog(conn: Connection, version: LeaderboardVersion) -> ArenaCatalog:
    """Return the board and, if it is of all votes, those of the same method by tag, one category each.

    The shape says neither which models can be compared nor what bounds a model without a score: it has the models with
    a score of one component, the one with the most votes among those in which any model has a score.

    Raises
    ------
    NoSuchBoardError
    """
    board = read_published(conn, version)
    categories = {version.tag or WHOLE: _category(row.model_dump() for row in board.models)}
    if version.tag is None:
        snapshot, method = version.snapshot.id, version.method
        tags = [tag for one, tag in list_leaderboards(conn, snapshot) if one == method and tag not in ("", WHOLE)]
        categories |= {tag: _category(read_board(conn, snapshot, method, tag)) for tag in tags}
    return ArenaCatalog(categories)


def _category(rows: Iterable[dict[str, Any] | RowMapping]) -> Category:
    scored = [row for row in rows if row["score"] is not None]
    most_votes = min((row["component"] for row in scored), default=None)  # components are numbered by their votes
    return {
        row["model"]: CatalogRating(rating=row["score"], rating_q975=row["upper"], rating_q025=row["lower"])
        for row in scored
        if row["component"] == most_votes
    }
