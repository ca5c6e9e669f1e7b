import math

import pytest
from sqlalchemy import Connection, Double, Integer, Text, select

from app.database.arrays import table_of_arrays

TEXTS = ["plain", "", "NULL", "null", None, "a,b", '"quoted"', "back\\slash", "{}", " ", "é\n\t"]


def test_what_is_sent_arrives(connection: Connection) -> None:
    numbers = [0.1, -1e-300, 1e300, 5e-324, None, math.inf, -0.0, 1 / 3, 2.0, 7.0, 8.0]
    columns = {"number": list(range(len(TEXTS))), "value": numbers, "text": TEXTS}
    fresh = table_of_arrays(columns, {"number": Integer(), "value": Double(), "text": Text()})
    rows = connection.execute(select(fresh).order_by(fresh.c.number)).all()
    assert [tuple(row) for row in rows] == list(zip(range(len(TEXTS)), numbers, TEXTS, strict=True))


def test_nothing_is_an_empty_table(connection: Connection) -> None:
    fresh = table_of_arrays({"value": []}, {"value": Double()})
    assert connection.execute(select(fresh)).all() == []


def test_nan_stays_nan(connection: Connection) -> None:
    fresh = table_of_arrays({"value": [math.nan]}, {"value": Double()})
    assert connection.execute(select(fresh)).scalar_one() == pytest.approx(math.nan, nan_ok=True)
