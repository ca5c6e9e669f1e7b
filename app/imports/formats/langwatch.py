"""The results of LangWatch's experiments as CSV: a row for each item, with columns for the grades of each target."""

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import cast

import polars as pl

from app.imports.formats.schemas import Input
from app.imports.formats.sources import RawBatch, VoteSource, select_wanted


def unfold_grades(source: VoteSource) -> VoteSource:
    """Return such a file as one with a record for each grade; any other file unchanged."""
    columns = source.columns
    targets = [name for column in columns if (name := column.removesuffix("_trace_id")) + "_cost" in columns]
    graders: dict[str, dict[str, str]] = {}
    for column in columns:
        stem = column.removesuffix("_score")
        target = max((name for name in targets if stem.startswith(f"{name}_")), key=len, default="")
        if stem != column and target and f"{stem}_passed" in columns:
            graders.setdefault(stem.removeprefix(f"{target}_"), {})[target] = stem
    cells = [(grader, *cell) for grader, stems in graders.items() if len(stems) > 1 for cell in stems.items()]
    if not cells:
        return source
    first = next(place for place, column in enumerate(columns) if column.startswith(tuple(f"{t}_" for t in targets)))
    return _Unfolded(source, cells, [column for column in columns[:first] if column != "index"] or columns[:first])


class _Unfolded:
    """A record for each of `cells` in a row: (evaluator, target, the beginning of the names of its columns).

    An item is known by what it has in the columns of the dataset.
    """

    columns: Sequence[str] = ("item", "annotator", "annotator_kind", "model", "rating")

    def __init__(self, source: VoteSource, cells: Sequence[tuple[str, str, str]], dataset: Sequence[str]) -> None:
        self.kind = source.kind
        self._source, self._cells, self._dataset = source, cells, dataset

    def has(self, column: str) -> bool:
        return column in self.columns

    def count(self) -> int:
        return self._source.count() * len(self._cells)

    def batches(self, wanted: Mapping[Input, str]) -> Iterator[RawBatch]:
        ends = [f"{stem}_{end}" for _, _, stem in self._cells for end in ("score", "passed")]
        columns = cast("dict[Input, str]", {column: column for column in (*self._dataset, *ends)})
        for raw in self._source.batches(columns):
            asked = (json.dumps(row).encode() for row in raw.frame[self._dataset].rows())
            items = pl.Series([hashlib.sha256(one).hexdigest()[:16] for one in asked], dtype=pl.String)
            rows = raw.frame.with_columns(item=items).with_row_index()
            grades = [
                rows.select("index", "item", annotator=pl.lit(grader), model=pl.lit(target), rating=_grade(stem))
                for grader, target, stem in self._cells
            ]
            both = pl.concat(grades).sort("index", maintain_order=True).with_columns(annotator_kind=pl.lit("judge"))
            yield RawBatch(select_wanted(both, wanted))

    def places(self, rows: Collection[int]) -> dict[int, str]:
        found = self._source.places({row // len(self._cells) for row in rows})
        return {row: found[row // len(self._cells)] for row in rows}


def _grade(stem: str) -> pl.Expr:
    """Return the score, or 1 or 0 where there is none and the answer passed or not."""
    score, passed = pl.col(f"{stem}_score"), pl.col(f"{stem}_passed").replace({"true": "1", "false": "0"})
    return pl.when(score.fill_null("").is_in(["", "Error", "Skipped"])).then(passed).otherwise(score)
