import polars as pl
from sqlalchemy import Connection, text

from app.database.copying import copy_into


def test_rows_are_what_they_were(connection: Connection) -> None:
    connection.execute(text('CREATE TEMPORARY TABLE "odd name" (number int, value float8, word text, nothing int)'))
    words = ["plain", "", None, 'quote " and, comma', "line\nbreak", r"\N"]
    values = [0.1, -0.0, 1e300, 5e-324, None, 1 / 3]
    rows = pl.DataFrame({"number": range(6), "value": values, "word": words, "nothing": [None] * 6})
    copy_into(connection, "odd name", rows)
    found = connection.execute(text('SELECT * FROM "odd name" ORDER BY number')).all()
    assert [tuple(row) for row in found] == rows.rows()


def test_no_rows_are_none(connection: Connection) -> None:
    connection.execute(text("CREATE TEMPORARY TABLE empty (number int)"))
    copy_into(connection, "empty", pl.DataFrame({"number": []}))
    assert connection.execute(text("SELECT count(*) FROM empty")).scalar_one() == 0
