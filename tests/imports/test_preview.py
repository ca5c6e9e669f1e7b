"""The beginning of a file is read in a process of its own, which may end without harm."""

import io
from collections.abc import Iterator

import polars as pl
import pytest

from app.errors import BadInputError
from app.imports.formats.options import ReadOptions
from app.imports.preview import FilePreviews

VOTE = {"annotator": "k", "model_a": "a", "model_b": "b", "winner": "tie"}


@pytest.fixture
def previews() -> Iterator[FilePreviews]:
    previews = FilePreviews(450_000_000)
    yield previews
    previews.stop()


def test_what_needs_too_much_memory_ends_the_process_that_reads_it(previews: FilePreviews) -> None:
    content = io.BytesIO()
    pl.DataFrame({**VOTE, "annotator": "k" * (200 << 20)}).write_parquet(content, statistics=False)
    assert len(content.getvalue()) < 100_000
    with pytest.raises(BadInputError, match="memory"):
        previews.preview(content.getvalue(), ReadOptions(), name="v.parquet", ending=".parquet", cut=False)

    content = io.BytesIO()  # and the next file is read by another one
    pl.DataFrame([VOTE]).write_csv(content, compression="gzip")
    found = previews.preview(content.getvalue(), ReadOptions(), name="v.csv.gz", ending=".csv", cut=False)
    assert (found.votes, found.rows) == (1, [["k", "a", "b", "tie"]]), "a compressed file is shown as a plain one"
