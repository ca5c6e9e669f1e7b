from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path

import polars as pl
import pytest

from app.imports.formats import parquet as parquet_source
from app.imports.formats.errors import FileTooLargeError, NoVotesError, UnreadableFileError
from app.imports.formats.options import ReadOptions
from app.imports.formats.reading import VoteReader
from app.imports.formats.whole import read_vote_file
from tests.fixtures.errors import limited_to

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
    "timestamps",
    [
        pl.Series([datetime(2026, 1, 31, 12), None]),  # noqa: DTZ001  naive on purpose: the file has no zone
        pl.Series([datetime(2026, 1, 31, 12, tzinfo=UTC), None]),
        pl.Series([datetime(2026, 1, 31, 13), None]).dt.replace_time_zone("Europe/Berlin"),  # noqa: DTZ001  as above
        pl.Series(["2026-01-31 12:00", ""]),
    ],
)
def test_moments_are_utc(tmp_path: Path, timestamps: pl.Series) -> None:
    votes = read_vote_file(parquet(tmp_path, timestamp=timestamps)).frame
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
        ("winner", ["tie", "won"], "unknown outcome 'won'"),
    ],
)
def test_a_faulty_value_is_named_with_its_row(tmp_path: Path, column: str, values: list[object], detail: str) -> None:
    file = read_vote_file(parquet(tmp_path, **{column: values}))
    assert [(fault.pointer, fault.detail) for fault in file.faults] == [(f"row 1, {column}", detail)]
    assert file.frame.height == 1


@pytest.mark.parametrize("content", [b"PAR1", b"a,b\n1,2\n", b"PAR1" + b"\0" * 100 + b"PAR1"])
def test_what_is_no_parquet_file_is_refused(write: Write, content: bytes) -> None:
    with pytest.raises(UnreadableFileError):
        read_vote_file(write("v.parquet", content))


def test_a_parquet_file_without_rows_is_refused(tmp_path: Path) -> None:
    path = parquet(tmp_path)
    pl.read_parquet(path).clear().write_parquet(path)
    with pytest.raises(NoVotesError):
        read_vote_file(path, progress=lambda _: None)


def test_a_damaged_page_is_refused(tmp_path: Path) -> None:
    path = parquet(tmp_path, annotator=["some", "words"])
    content = path.read_bytes()
    damaged = content[:4] + b"\xff" * 60 + content[64:]
    path.write_bytes(damaged)
    with pytest.raises(UnreadableFileError):
        read_vote_file(path)


def many(folder: Path, rows: int, *, group: int | None = None, **columns: pl.Expr) -> Path:
    votes = {"annotator": pl.lit("k"), "model_a": pl.lit("a"), "model_b": pl.lit("b"), "winner": pl.lit("tie")}
    path = folder / "many.parquet"
    every = pl.select(pl.int_range(rows).cast(pl.String).alias("battle_id"))
    every.with_columns(**{**votes, **columns}).write_parquet(path, row_group_size=group)
    return path


def test_a_parquet_file_expands_no_further_than_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = many(tmp_path, 10_000, group=1_000, metadata=pl.lit('{"n": 1}'), conversation=pl.lit("y" * 10**5))
    assert path.stat().st_size < 100_000
    monkeypatch.setattr(parquet_source, "ROWS_PER_BATCH", 1_000)
    monkeypatch.setattr(parquet_source, "MAX_EXPANDED_BYTES", 10_000 * 1_000)  # the conversation is not read
    assert read_vote_file(path).rows_read == 10_000
    monkeypatch.setattr(parquet_source, "MAX_EXPANDED_BYTES", 10_000 * 10)
    with pytest.raises(FileTooLargeError, check=limited_to(100_000)):
        read_vote_file(path)


@pytest.mark.parametrize("group", [None, 122_880])
def test_row_groups_as_writers_make_them_are_read(tmp_path: Path, group: int | None) -> None:
    assert read_vote_file(many(tmp_path, 300_000, group=group)).frame.height == 300_000


@pytest.mark.parametrize("rows_at_once", [1, 3, 7, 100])
def test_row_groups_are_read_a_few_rows_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows_at_once: int
) -> None:
    path = many(tmp_path, 20, group=6)
    monkeypatch.setattr(parquet_source, "ROWS_PER_BATCH", rows_at_once)
    batches = [batch.votes for batch in VoteReader(path, ReadOptions()).batches(max_faults=0)]
    assert {batch.height for batch in batches[:-1]} <= {rows_at_once}
    assert pl.concat(batches)["battle_id"].to_list() == [str(i) for i in range(20)]


OUTSIDE = "must lie between the years 1970 and 9999"


@pytest.mark.parametrize(
    ("timestamps", "fine", "future"),
    [
        (pl.Series([0, 2**50, None]).cast(pl.Datetime("us")), 3, 0),
        (pl.Series([253402128000 * 10**6, 2**58]).cast(pl.Datetime("us", "UTC")), 0, 1),
        (pl.Series([253402128000 * 10**6 + 1, -(2**57), -1]).cast(pl.Datetime("us", "Europe/Berlin")), 0, 0),
        (pl.Series([2**40, 2**62]).cast(pl.Datetime("ms")), 1, 0),
        (pl.Series([2**63 - 1, -(2**63), -1]).cast(pl.Datetime("ns")), 0, 1),
        (pl.Series([0, 2932895, 2932896, -1, 2**31 - 1], dtype=pl.Int32).cast(pl.Date), 1, 1),
    ],
)
def test_moments_that_cannot_be_stored_are_faults_of_their_rows(
    tmp_path: Path, timestamps: pl.Series, fine: int, future: int
) -> None:
    path = tmp_path / "v.parquet"
    votes = pl.select(annotator=pl.lit("k"), model_a=pl.lit("a"), model_b=pl.lit("b"), winner=pl.lit("tie"))
    votes.join(timestamps.to_frame("timestamp"), how="cross").write_parquet(path)
    file = read_vote_file(path, ReadOptions(keep_features=True))
    bad = range(fine, len(timestamps))
    assert [fault.pointer for fault in file.faults] == [f"row {i}, timestamp" for i in bad]
    details = [fault.detail for fault in file.faults]
    assert all("must not lie in the future" in detail for detail in details[:future])
    assert details[future:] == [OUTSIDE] * (len(bad) - future)
    assert file.frame.height == fine
    assert all(at is None or 1970 <= at.year <= 9999 for at in file.frame["voted_at"])


@pytest.mark.parametrize(
    "wild", [pl.Series([0, 2**62]).cast(pl.Datetime("ms")), pl.Series([0, 2**62]).cast(pl.Duration("ms"))]
)
def test_wild_moments_elsewhere_are_faults_too(tmp_path: Path, wild: pl.Series) -> None:
    file = read_vote_file(parquet(tmp_path, battle_id=wild))
    kind = str(wild.dtype.base_type()).lower()
    assert [fault.detail for fault in file.faults] == [f"must be text, is a {kind}"] * 2
    file = read_vote_file(parquet(tmp_path, metadata=wild.to_frame("at").to_struct("metadata")))
    assert [(fault.pointer, fault.detail[:17]) for fault in file.faults] == [("row 1, metadata", "holds a timestamp")]
