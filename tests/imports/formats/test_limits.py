"""Small files that would become large in memory are refused by what is too large in them."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from app.imports.formats import expansion
from app.imports.formats.errors import FileTooLargeError
from app.imports.formats.options import ReadOptions
from app.imports.formats.reading import VoteReader
from app.imports.formats.sources import MAX_COLUMNS, MAX_VALUE_BYTES
from app.imports.formats.whole import read_vote_file
from tests.fixtures.errors import limited_to

Write = Callable[[str, str | bytes], Path]

HEADER = "model_a,model_b,winner,annotator,comment\n"
VOTE = {"model_a": "a", "model_b": "b", "winner": "tie", "annotator": "k"}
MEASURED = """
import sys
from pathlib import Path
from app.imports.formats.options import ReadOptions
from app.imports.formats.reading import VoteReader
from app.imports.formats.errors import FileTooLargeError
def most():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) >> 10
before, faults, limit = most(), [], 0
try:
    reader = VoteReader(Path(sys.argv[1]), ReadOptions())
    for batch, _ in zip(reader.batches(max_faults=1), range(3)):
        faults += batch.faults
except FileTooLargeError as error:
    limit = error.extensions["limit"]
print(most() - before, limit, *faults)
"""


def read(path: Path) -> tuple[int, int, str]:
    """Return how many MiB a process grows by that reads the file, the limit that it exceeds or 0, and its fault."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, str(path)], capture_output=True, text=True, timeout=120, check=True
    )
    mebibytes, limit, fault = [*done.stdout.split(maxsplit=2), ""][:3]
    return int(mebibytes), int(limit), fault


@pytest.mark.parametrize("mebibytes", [40, *(pytest.param(n, marks=pytest.mark.campaign) for n in (2, 100))])
def test_a_parquet_file_of_one_long_text(tmp_path: Path, mebibytes: int) -> None:
    path = tmp_path / "v.parquet"
    pl.DataFrame({**VOTE, "annotator": "k" * (mebibytes << 20)}).write_parquet(path, statistics=False)
    assert path.stat().st_size < 10_000
    grown, _, fault = read(path)
    assert f"must have at most {MAX_VALUE_BYTES:,} bytes" in fault
    assert grown < 50 + 8 * mebibytes, "the text is held a few times, no more"


def test_a_parquet_file_of_one_large_row_group(tmp_path: Path) -> None:
    path = tmp_path / "v.parquet"
    rows = 5_000_000
    many = pl.select(pl.int_range(rows)).with_columns(**{name: pl.lit(value) for name, value in VOTE.items()})
    many.select(*VOTE).write_parquet(path, row_group_size=rows, statistics=False)
    assert path.stat().st_size < 10_000
    grown, limit, fault = read(path)
    assert (limit, fault, grown < 150) == (0, "", True)


def test_a_csv_file_of_many_columns(write: Write) -> None:
    path = write("v.csv", f"model_a,model_b,winner,annotator{''.join(f',c{i}' for i in range(100_000))}\na,b,tie,k\n")
    grown, limit, _ = read(path)
    assert (limit, grown < 70) == (MAX_COLUMNS, True)


@pytest.mark.parametrize("inside", [False, True])
def test_columns_of_parquet_count_inside_others_too(tmp_path: Path, inside: bool) -> None:
    path = tmp_path / "v.parquet"
    many = {f"c{i}": pl.lit(i) for i in range(2_000)}
    columns = {"held": pl.struct(**many)} if inside else many
    pl.DataFrame(VOTE).with_columns(**columns).write_parquet(path)
    with pytest.raises(FileTooLargeError, check=limited_to(MAX_COLUMNS)):
        VoteReader(path, ReadOptions())


def test_as_many_columns_as_may_be(write: Write) -> None:
    columns = [*VOTE, *(f"c{i}" for i in range(MAX_COLUMNS - 4))]
    assert read_vote_file(write("v.csv", f"{','.join(columns)}\na,b,tie,k\n")).rejected == 0
    with pytest.raises(FileTooLargeError, check=limited_to(MAX_COLUMNS)):
        read_vote_file(write("v.jsonl", json.dumps({**VOTE, **dict.fromkeys(columns, "x"), "one": "x"})))


def test_a_long_value_is_an_error_of_its_record(write: Write, tmp_path: Path) -> None:
    votes = [{**VOTE, "battle_id": "x" * length} for length in (3, 2**20 + 1)] + [VOTE] * 5
    pl.DataFrame(votes).write_parquet(tmp_path / "v.parquet")
    pl.DataFrame(votes).write_csv(tmp_path / "v.csv")
    for path in (tmp_path / "v.parquet", tmp_path / "v.csv", write("v.json", json.dumps(votes))):
        read = read_vote_file(path)
        assert (read.frame.height, read.rejected) == (6, 1)
        assert [fault.detail for fault in read.faults] == ["must have at most 1,048,576 bytes"]


def test_records_of_the_longest_length(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expansion, "MAX_RECORD_BYTES", most := 3 * 2**18)
    text = "ü\n" * 2**17  # half of it; 16 MiB of lines would take long
    for n in (1, 3):
        files = [
            write("v.csv", HEADER + 'a,b,tie,k,"x"\n' + f'a,b,tie,k,"{text * n}"\na,b,tie,k,\n' * 4),
            write("v.jsonl", "\n".join(json.dumps({**VOTE, "comment": text * n}, ensure_ascii=False) for _ in "1234")),
            write("v.json", json.dumps([{**VOTE, "comment": text * n}] * 2, ensure_ascii=False)),
            write("w.json", json.dumps([{**VOTE, "comment": text * n}] * 2, ensure_ascii=False, indent=1)),
        ]
        for path in files:
            if n == 1:
                assert read_vote_file(path).rejected == 0
            else:
                with pytest.raises(FileTooLargeError, check=limited_to(most)):
                    read_vote_file(path)


def test_a_quote_that_is_never_closed_is_no_endless_record(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expansion, "MAX_RECORD_BYTES", most := 2**20)
    with pytest.raises(FileTooLargeError, check=limited_to(most)):
        read_vote_file(write("v.csv", HEADER + 'a,b,tie,k,"' + "x\n" * (most // 2 + 1)))
