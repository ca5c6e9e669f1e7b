"""A published leaderboard as bytes: JSON, CSV, Parquet, arena-catalog; whole, or a part of it."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, RowMapping

from app.leaderboard.row_files import ROW_FILES
from app.leaderboard.schemas import (
    ArenaCatalog,
    CatalogRating,
    Category,
    LeaderboardFormat,
    LeaderboardRow,
    PublishedLeaderboard,
)
from app.leaderboard.service import read_published
from app.snapshots.queries import list_leaderboards, list_placed_models
from app.snapshots.schemas import LeaderboardMethod, SnapshotHead

ALL_VOTES = "full"
"""The category of all votes, as arena-catalog names it. It hides a tag of this name, which `tag=full` still shows."""
MOST_MODELS = 10_000
"""How many models a limit may ask for."""
FIELDS = (*LeaderboardRow.model_fields, "diagnostics")
"""What a request may name: the fields of a model, and the diagnostics, which are the leaderboard's."""


def read_fields(text: str | None) -> tuple[str, ...]:
    """Return the fields that a text names, separated by commas, and the models' names; in the order of `FIELDS`.

    Raises ValueError: it names an unknown one.
    """
    named = {name.strip() for name in text.split(",")} - {""} if text else set()
    if unknown := sorted(named - {*FIELDS}):
        raise ValueError(f"has the unknown {', '.join(unknown)}; fields are {', '.join(FIELDS)}")
    return tuple(name for name in FIELDS if name in named or (named and name == "model"))


def render(
    published: PublishedLeaderboard, form: LeaderboardFormat, limit: int | None = None, fields: Collection[str] = ()
) -> bytes:
    """Return a leaderboard in a format, without its freshness.

    `limit`: only the first so many models; None for all.
    `fields`: only these of `FIELDS`; empty for all.
    """
    shown = published.model_copy(update={"models": published.models[:limit]})
    if form != "json":
        return ROW_FILES[form](*_tabulate(shown, fields))
    included: dict[str, Any] | None = None
    if fields:
        left_out = {"diagnostics"} - {*fields}
        included = dict.fromkeys(PublishedLeaderboard.model_fields.keys() - left_out, True)
        included["models"] = {"__all__": {*fields}}
    return shown.model_dump_json(include=included).encode()


def _tabulate(
    published: PublishedLeaderboard, fields: Collection[str]
) -> tuple[Sequence[dict[str, Any]], Sequence[str]]:
    """Return rows of a table, and their columns. Compared leaderboards have columns of their own."""
    rows, columns = published.rows(), published.columns()
    if not fields:
        return rows, columns
    left_out = {*columns} - {*fields}
    if "compared" not in fields and rows:
        left_out |= {*rows[0]} - {*columns}
    return (
        [{name: value for name, value in row.items() if name not in left_out} for row in rows],
        [name for name in columns if name not in left_out],
    )


def make_catalog(
    conn: Connection, snapshot: SnapshotHead, method: LeaderboardMethod = "am-elo", tag: str | None = None
) -> ArenaCatalog:
    """Return a leaderboard as one category. A leaderboard of all votes also brings one category for each tag.

    The format has no components and no missing scores. So a category holds the models with a score in one component:
    the component with the most votes among those that have a score. Raises NoSuchLeaderboardError.
    """
    published = read_published(conn, snapshot, method, tag)
    categories = {tag or ALL_VOTES: _category(row.model_dump() for row in published.models)}
    if not tag:
        kept = list_leaderboards(conn, snapshot.id)
        tags = [name for one, name in kept if one == method and name not in ("", ALL_VOTES)]
        categories |= {name: _category(list_placed_models(conn, snapshot.id, method, name)) for name in tags}
    return ArenaCatalog(categories)


def _category(rows: Iterable[dict[str, Any] | RowMapping]) -> Category:
    scored = [row for row in rows if row["score"] is not None]
    most_votes = min((row["component"] for row in scored), default=None)  # component numbers go by votes, most first
    return {
        row["model"]: CatalogRating(rating=row["score"], rating_q975=row["upper"], rating_q025=row["lower"])
        for row in scored
        if row["component"] == most_votes
    }
