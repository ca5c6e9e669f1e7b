"""Rows into a table by COPY: a statement with values takes several times as long for some ten thousand rows."""

import io
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from psycopg import sql
from sqlalchemy import Connection

from app.database.engine import driver_of

if TYPE_CHECKING:
    import polars as pl

_ROWS_PER_WRITE = 50_000


def copy_into(conn: Connection, table: str, rows: "pl.DataFrame | Mapping[str, Any]") -> None:
    """Add rows, or columns of equal length, to a table, by the names of its columns.

    Null stays null, an empty text is none.
    """
    import polars as pl  # noqa: PLC0415  slow to import, and servers start without it

    rows = pl.DataFrame(rows, infer_schema_length=None)
    names = sql.SQL(", ").join(map(sql.Identifier, rows.columns))
    statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT csv)").format(sql.Identifier(table), names)
    with driver_of(conn).cursor() as cursor, cursor.copy(statement) as copy:
        for piece in rows.iter_slices(_ROWS_PER_WRITE):  # the text of all of them would take twice the memory
            text = io.BytesIO()
            piece.write_csv(text, include_header=False)
            copy.write(text.getvalue())
