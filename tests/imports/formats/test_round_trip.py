import csv
import json
import sys
import tempfile
import unicodedata
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.imports.formats.whole import read_vote_file
from app.naming.names import name_error
from app.rating.estimators.tables import read_table

AWKWARD = ["580", "007", "1e3", "nan", "NaN", "null", "None", "true", '"', 'a"b', "a,b", "=1+1", "'", "a;b", "#x", "\\"]
texts = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1, max_size=12).map(str.strip)
names = st.one_of(st.sampled_from(AWKWARD), texts.filter(lambda name: not name_error(name)))
outcomes = st.sampled_from(["model_a", "model_b", "tie", "tie (bothbad)"])
pairs = st.lists(names, min_size=2, max_size=2, unique=True)
votes = st.builds(lambda annotator, pair, winner: (annotator, *pair, winner), names, pairs, outcomes)

COLUMNS = ["annotator", "model_a", "model_b", "winner"]
CODES = {"model_a": 0, "model_b": 1, "tie": 2, "tie (bothbad)": 3}


@settings(max_examples=30)
@given(st.lists(votes, min_size=1, max_size=8))
@pytest.mark.campaign
def test_what_is_written_is_read_back_whatever_the_names(rows: list[tuple[str, str, str, str]]) -> None:
    expected = [(k, a, b, CODES[winner]) for k, a, b, winner in rows]
    with tempfile.TemporaryDirectory() as folder:
        for name in ("v.csv", "v.jsonl", "v.parquet"):
            path = Path(folder, name)
            write(path, rows)
            file = read_vote_file(path)
            assert file.frame.select("annotator", "model_a", "model_b", "outcome").rows() == expected
            assert (file.faults, file.rows_read) == ([], len(rows))
            assert file.frame["row"].to_list() == list(range(len(rows)))
        assert_numbered(rows, file.table())


def write(path: Path, rows: list[tuple[str, str, str, str]]) -> None:
    if path.suffix == ".csv":
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([COLUMNS, *rows])
    elif path.suffix == ".jsonl":
        lines = [json.dumps(dict(zip(COLUMNS, row, strict=True))) for row in rows]
        path.write_text("\n".join(lines), encoding="utf-8")
    else:
        pl.DataFrame(rows, schema=COLUMNS, orient="row").write_parquet(path)


def assert_numbered(rows: list[tuple[str, str, str, str]], table: pl.DataFrame) -> None:
    indexed = read_table(table).votes
    assert indexed.annotators == sorted({row[0] for row in rows})
    assert indexed.models == sorted({name for row in rows for name in row[1:3]})
    assert [indexed.annotators[i] for i in indexed.annotator] == [row[0] for row in rows]
    assert [indexed.models[i] for i in indexed.model_a] == [row[1] for row in rows]
    assert [indexed.models[i] for i in indexed.model_b] == [row[2] for row in rows]
    assert indexed.outcome.tolist() == [[1.0, 0.0, 0.5, 0.5][CODES[row[3]]] for row in rows]
    assert {indexed.annotator.dtype, indexed.model_a.dtype, indexed.model_b.dtype} == {np.dtype(np.int32)}


def test_control_characters_are_refused_in_names(tmp_path: Path) -> None:
    controls = [one for one in map(chr, range(sys.maxunicode)) if unicodedata.category(one) in ("Cc", "Zl", "Zp")]
    assert len(controls) == 67
    path = tmp_path / "v.jsonl"
    write(path, [("k", f"a{one}a", "b", "tie") for one in controls])
    read = read_vote_file(path)
    assert (read.rejected, {fault.pointer for fault in read.faults}) == (
        67, {f"line {line}, model_a" for line in range(1, 68)}
    )  # fmt: skip
