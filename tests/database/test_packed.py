from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import Connection

from app.database import packed

A, B = UUID(int=1), UUID(int=2**128 - 1)


@pytest.mark.parametrize(
    ("kind", "array", "numbers"),
    [
        ("smallint", packed.small_integers, [0, 3, -1, 32_767, -32_768]),
        ("integer", packed.integers, [1, -1, 2**31 - 1, -(2**31), 0]),
        ("integer", packed.integers, [7]),
        ("uuid", packed.ids, [A, B]),
        ("uuid", packed.ids, [None, A, None]),
        ("uuid", packed.ids, [None]),
    ],
)
def test_the_server_reads_what_was_packed(connection: Connection, kind: str, array: Any, numbers: list[Any]) -> None:
    statement = f"SELECT * FROM unnest(%(packed)b::{kind}[]) WITH ORDINALITY"
    told = connection.exec_driver_sql(statement, {"packed": array(numbers)}).all()
    assert [tuple(row) for row in told] == list(zip(numbers, range(1, len(numbers) + 1), strict=True))
    assert connection.exec_driver_sql(
        "SELECT pg_typeof(%(packed)b)::text", {"packed": array(numbers)}
    ).scalar_one() == (f"{kind}[]")


def test_a_number_too_large_for_its_column_is_refused() -> None:
    with pytest.raises(OverflowError):
        packed.small_integers([40_000])
