import csv
import gzip
import io
import tempfile
from pathlib import Path

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from app.imports.formats.csv import csv_records
from app.imports.formats.sources import bad_utf8_line

fields = st.text(st.sampled_from('ab ,"\n\r'), max_size=5)


@given(st.lists(st.tuples(fields, fields, fields), min_size=1, max_size=8))
def test_records_are_the_ones_polars_reads(rows: list[tuple[str, str, str]]) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows(rows)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.csv")
        path.write_text(text.getvalue(), encoding="utf-8", newline="")
        records = list(csv_records(path))
        read = pl.read_csv(path, has_header=False, infer_schema=False)
    assert len(records) == read.height == len(rows)
    assert all(record.n_fields == 3 and record.is_well_quoted for record in records)
    lines = text.getvalue().split("\n")
    starts = [1 + sum(1 + "".join(row).count("\n") for row in rows[:i]) for i in range(len(rows))]
    assert [record.line for record in records] == starts
    assert all(lines[start - 1].startswith('"') for start in starts)


def test_the_first_line_that_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes("é\nß\n".encode() + b"\xff\n\xff")
    assert bad_utf8_line(path) == 3
    path.write_bytes("é\n".encode())
    assert bad_utf8_line(path) is None
    path.write_bytes(gzip.compress(b"e\n\xff\xff"))
    assert bad_utf8_line(path) == 2
