"""The beginning of a file is read in a process of its own, which may end without harm."""

import io

import polars as pl
import pytest

from app.errors import BadInputError
from app.imports.formats.options import ReadOptions
from app.imports.preview import preview_file

VOTE = {"annotator": "k", "model_a": "a", "model_b": "b", "winner": "tie"}


def test_what_needs_too_much_memory_ends_the_process_that_reads_it() -> None:
    content = io.BytesIO()
    pl.DataFrame({**VOTE, "annotator": "k" * (200 << 20)}).write_parquet(content, statistics=False)
    assert len(content.getvalue()) < 100_000
    with pytest.raises(BadInputError, match="memory"):
        preview_file(
            content.getvalue(), ReadOptions(), name="v.parquet", ending=".parquet", cut=False, memory_bytes=450_000_000
        )


def test_a_compressed_file_is_shown_as_a_plain_one() -> None:
    content = io.BytesIO()
    pl.DataFrame([VOTE]).write_csv(content, compression="gzip")
    found = preview_file(
        content.getvalue(), ReadOptions(), name="v.csv.gz", ending=".csv", cut=False, memory_bytes=None
    )
    assert (found.votes, found.rows) == (1, [["k", "a", "b", "tie"]])
