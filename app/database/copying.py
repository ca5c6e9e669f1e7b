"""Rows into a table by COPY: a statement with values takes several times as long for some ten thousand rows."""

import io
from typing import cast

import polars as pl
import psycopg
from psycopg import sql
from sqlalchemy import Connection

_ROWS_PER_WRITE = 50_000


def copy_into(conn: Connection, table: str, rows: pl.DataFrame) -> None:
    """Add rows to a table; their columns have the names of the table's. Null stays null, an empty text is none."""
    names = sql.SQL(", ").join(map(sql.Identifier, rows.columns))
    statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT csv)").format(sql.Identifier(table), names)
    driver = cast("psycopg.Connection", conn.connection.driver_connection)
    with driver.cursor() as cursor, cursor.copy(statement) as copy:
        for piece in rows.iter_slices(_ROWS_PER_WRITE):  # the text of all of them would take twice the memory
            text = io.BytesIO()
            piece.write_csv(text, include_header=False)
            copy.write(text.getvalue())
