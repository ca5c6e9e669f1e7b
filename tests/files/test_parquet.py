from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path

import polars as pl
import pytest

from app.arena.files import read_vote_file
from app.errors import BadInputError

Write = Callable[[str, str | bytes], Path]


def parquet(folder: Path, **columns: pl.Series | list[object]) -> Path:
    votes = {"annotator": ["k", "k"], "model_a": ["a", "a"], "model_b": ["b", "b"], "winner": ["tie", "model_a"]}
    path = folder / "v.parquet"
    pl.DataFrame({**votes, **columns}).write_parquet(path)
    return path


def test_numbers_and_categories_become_text(tmp_path: Path) -> None:
    path = parquet(
        tmp_path,
        annotator=[1.0, 2.0],  # what pandas makes of whole numbers
        model_a=pl.Series([580, 7], dtype=pl.Int32),
        winner=pl.Series(["tie", "model_a"], dtype=pl.Categorical),
    )
    votes = read_vote_file(path).frame
    assert votes.select("annotator", "model_a", "outcome").rows() == [("1", "580", 2), ("2", "7", 0)]


@pytest.mark.parametrize(
    "moments",
    [
        pl.Series([datetime(2026, 1, 31, 12), None]),  # noqa: DTZ001  naive on purpose: the file has no zone
        pl.Series([datetime(2026, 1, 31, 12, tzinfo=UTC), None]),
        pl.Series([datetime(2026, 1, 31, 13), None]).dt.replace_time_zone("Europe/Berlin"),  # noqa: DTZ001  as above
        pl.Series(["2026-01-31 12:00", ""]),
    ],
)
def test_moments_are_utc(tmp_path: Path, moments: pl.Series) -> None:
    votes = read_vote_file(parquet(tmp_path, timestamp=moments)).frame
    assert votes["voted_at"].to_list() == [datetime(2026, 1, 31, 12, tzinfo=UTC), None]


def test_a_date_is_its_midnight(tmp_path: Path) -> None:
    votes = read_vote_file(parquet(tmp_path, timestamp=[date(2026, 1, 31), None])).frame
    assert votes["voted_at"][0] == datetime(2026, 1, 31, tzinfo=UTC)


def test_nested_columns_are_tags_and_metadata(tmp_path: Path) -> None:
    votes = read_vote_file(parquet(tmp_path, tags=[["x", "y"], None], metadata=[{"turn": 1}, None])).frame
    assert votes["tags"].to_list() == [["x", "y"], None]
    assert votes["metadata"].to_list() == ['{"turn":1}', None]


@pytest.mark.parametrize(
    ("column", "values", "detail"),
    [
        ("annotator", [1.0, float("nan")], "must not be NaN"),
        ("annotator", ["k", None], "must not be blank"),
        ("model_a", [1.0, 2.5], "must be text, is the number 2.5"),
        ("model_b", ["b", "a"], "is 'a' on both sides"),
        ("winner", [None, "tie"], "must not be blank"),
    ],
)
def test_a_faulty_value_is_named_with_its_row(tmp_path: Path, column: str, values: list[object], detail: str) -> None:
    file = read_vote_file(parquet(tmp_path, **{column: values}))
    row = 0 if column == "winner" else 1
    assert [(fault.pointer, fault.detail) for fault in file.faults] == [(f"row {row}, {column}", detail)]
    assert file.frame.height == 1


@pytest.mark.parametrize("content", [b"PAR1", b"a,b\n1,2\n", b"PAR1" + b"\0" * 100 + b"PAR1"])
def test_what_is_no_parquet_file_is_refused(write: Write, content: bytes) -> None:
    with pytest.raises(BadInputError, match="cannot be read as Parquet"):
        read_vote_file(write("v.parquet", content))


def test_a_parquet_file_without_rows_is_refused(tmp_path: Path) -> None:
    path = parquet(tmp_path)
    pl.read_parquet(path).clear().write_parquet(path)
    with pytest.raises(BadInputError, match="has no votes"):
        read_vote_file(path, progress=lambda _: None)


def test_a_damaged_page_is_refused(tmp_path: Path) -> None:
    path = parquet(tmp_path, annotator=["some", "words"])
    content = path.read_bytes()
    damaged = content[:4] + b"\xff" * 60 + content[64:]
    path.write_bytes(damaged)
    with pytest.raises(BadInputError, match="cannot be read as Parquet"):
        read_vote_file(path)
