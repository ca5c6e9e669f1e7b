"""A published leaderboard as bytes: JSON, CSV, Parquet, arena-catalog."""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, RowMapping

from app.leaderboard.row_files import ROW_FILES
from app.leaderboard.schemas import ArenaCatalog, CatalogRating, Category, LeaderboardFormat
from app.leaderboard.service import LeaderboardVersion, read_published
from app.snapshots.queries import list_leaderboards, list_placed_models

ALL_VOTES = "full"
"""The category of all votes, as arena-catalog names it. It hides a tag of this name, which `tag=full` still shows."""


def render(conn: Connection, version: LeaderboardVersion, form: LeaderboardFormat) -> bytes:
    """Return a leaderboard in a format; JSON comes without the freshness. Raises NoSuchLeaderboardError."""
    published = read_published(conn, version)
    if form == "json":
        return version.excerpt.to_json(published)
    return ROW_FILES[form](*version.excerpt.to_rows(published))


def make_catalog(conn: Connection, version: LeaderboardVersion) -> ArenaCatalog:
    """Return a leaderboard as one category. A leaderboard of all votes also brings one category for each tag.

    The format has no components and no missing scores. So a category holds the models with a score in one component:
    the component with the most votes among those that have a score. Raises NoSuchLeaderboardError.
    """
    published = read_published(conn, version)
    categories = {version.tag or ALL_VOTES: _category(row.model_dump() for row in published.models)}
    if version.tag is None:
        snapshot, method = version.snapshot.id, version.method
        tags = [tag for one, tag in list_leaderboards(conn, snapshot) if one == method and tag not in ("", ALL_VOTES)]
        categories |= {tag: _category(list_placed_models(conn, snapshot, method, tag)) for tag in tags}
    return ArenaCatalog(categories)


def _category(rows: Iterable[dict[str, Any] | RowMapping]) -> Category:
    scored = [row for row in rows if row["score"] is not None]
    most_votes = min((row["component"] for row in scored), default=None)  # component numbers go by votes, most first
    return {
        row["model"]: CatalogRating(rating=row["score"], rating_q975=row["upper"], rating_q025=row["lower"])
        for row in scored
        if row["component"] == most_votes
    }
