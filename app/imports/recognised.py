"""What of a file is on record already, and whether that is too much to import it without a choice."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC
from uuid import UUID

import polars as pl
from sqlalchemy import Connection, RowMapping

from app.database.engine import Database
from app.errors import BadInputError
from app.imports import queries as store

MOST_OF_A_FILE = 0.5
MOST_OF_AN_IMPORT = 0.9
LEAST_IMPORT = 20
"""A smaller import may be contained in another file by chance."""


@dataclass(frozen=True)
class Recognised:
    """The votes of a file that are on record already.

    Attributes
    ----------
    votes : number of votes in the file, without those recognised by their `vote_id`.
    by_id : votes whose `vote_id` is on record, or earlier in the file. Columns: `number`, of the vote in the file, from
        0; `retracted`, whether the vote on record is; `detail`, how the two differ, null where they agree.
    by_content : votes that say the same as one on record; columns as `by_id`.
    of_imports : how many of `by_content` are votes of each earlier import.
    """

    votes: int
    by_id: pl.DataFrame
    by_content: pl.DataFrame
    of_imports: Mapping[UUID, int]

    def left_out(self, *, new_rows_only: bool) -> pl.DataFrame:
        """Return the votes that are not recorded; columns as `by_id`."""
        return self.by_id.vstack(self.by_content) if new_rows_only else self.by_id


def mostly_recorded(
    conn: Connection, repeated: int, votes: int, of_imports: Mapping[UUID, int], *, share: float = 1.0
) -> bool:
    """Whether so many repeated votes are most of a file, or contain most of an earlier import.

    `share` is the part of the limits that is enough, where the figures come from a sample.
    """
    if repeated > share * MOST_OF_A_FILE * votes:
        return True
    return any(
        of_imports[one["id"]] >= share * max(LEAST_IMPORT, MOST_OF_AN_IMPORT * one["counts"].get("created", 0))
        for one in store.read_imports(conn, list(of_imports))
    )


def refuse_recorded(database: Database, called: str, found: Recognised) -> None:
    """Refuse a file if most of it, or most of an earlier import, would count twice.

    Raises
    ------
    BadInputError
    """
    repeated = found.by_content.height
    with database.read() as conn:
        if not repeated or not mostly_recorded(conn, repeated, found.votes, found.of_imports):
            return
        earlier = store.read_imports(conn, list(found.of_imports))
    most = max(earlier, key=lambda one: found.of_imports[one["id"]], default=None)
    raise BadInputError(
        f"{called}: {repeated:,} of its {found.votes:,} votes are on record already, with the same annotator, models, "
        f"verdict and time{_origin(most, found) if most else ''}. Record only the other {found.votes - repeated:,} "
        "(--new-rows-only; over HTTP new_rows_only=true), or all of them as further votes (--allow-repeats; "
        "allow_repeats=true)"
    )


def _origin(one: RowMapping, found: Recognised) -> str:
    imported = f"{one['created_at'].astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    return f", {found.of_imports[one['id']]:,} of them from {one['file_name']} (imported {imported})"
