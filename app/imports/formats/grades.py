"""Grades of answers as rankings: those that one annotator gives to the models on one item are one ranking."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import polars as pl

from app.errors import BadInputError
from app.imports.formats.errors import FileTooLargeError, NoVotesError
from app.imports.formats.options import ZeroRank
from app.imports.formats.schemas import Input
from app.imports.formats.sources import RawBatch, VoteSource, refuse_long_values
from app.rating.errors import counted
from app.votes.rules import MOST_RANKED

MAX_GRADES = 10_000_000
"""They are held in memory: those of one ranking may stand anywhere in the file."""

_KEYS: tuple[Input, ...] = ("battle_id", "annotator", "criterion")
_ONE_EACH = "an annotator has graded at most one model of each item: the grades of all models must be in one file"


class RankingsOfGrades:
    """The rankings of a file with a model and its grade, or its rank, in each record.

    The best grade is the highest, the best rank the lowest. A record without a grade takes no part, and the only grade
    of an item is no vote. A ranking has the place of its first record, or of its first invalid one. `zero_rank` says
    whether a rank below 1 is the best or none.
    """

    def __init__(self, path: Path, source: VoteSource, zero_rank: ZeroRank | None = None) -> None:
        self._path, self._source, self._zero_rank = path, source, zero_rank
        self._records: list[int] = []

    def batches(self, wanted: Mapping[Input, str]) -> Iterator[RawBatch]:
        """Yield the rankings, all at once.

        Raises
        ------
        NoVotesError, FileTooLargeError
        BadInputError
            Some ranks are below 1, and it is not clear what they mean.
        """
        frame, faults = self._read(wanted)
        grade: Input = "rank" if "rank" in wanted else "grade"
        keys = [name for name in _KEYS if name in wanted]
        others = [name for name in wanted if name not in (*keys, "model", grade)]
        number, given = pl.col(grade).cast(pl.Float64, strict=False), pl.col(grade).fill_null("") != ""
        strange = frame.filter(given & ~number.is_finite().fill_null(value=False))["record"]
        faults |= dict.fromkeys(strange, f"{wanted[grade]} must be a number")
        if grade == "rank":
            given &= ~self._unranked(frame, keys, number)
        order = number * (1 if grade == "rank" else -1)
        groups = (
            frame.filter(given | pl.col("record").is_in(list(faults)))
            .group_by(keys, maintain_order=True)
            .agg("record", "model", order.alias("order"), pl.col(others).drop_nulls().first())
        )
        if groups["record"].list.len().max() == 1 and not faults:
            raise NoVotesError(f"{self._path}: {_ONE_EACH}")
        ambiguous, rankings, self._records = dict[int, str](), list[str | None](), []
        for records, models, orders, item in groups.select("record", "model", "order", "battle_id").iter_rows():
            bad = next((record for record in records if record in faults), None)
            fault = faults[bad] if bad is not None else _fault(models, item)
            if fault:
                ambiguous[len(rankings)] = fault
            rankings.append(None if fault or len(models) == 1 else _ranking(models, orders))
            self._records.append(records[0] if bad is None else bad)
        yield RawBatch(groups.select(*keys, *others, ranking=pl.Series(rankings, dtype=pl.String)), ambiguous=ambiguous)

    def _unranked(self, frame: pl.DataFrame, keys: Sequence[Input], number: pl.Expr) -> pl.Expr:
        """Return which records have a rank below 1 that is none.

        If a file would have no ranking without them, they are the best.
        """
        below = (number < 1).fill_null(value=False)
        n_below = frame.select(below.sum()).item()
        if self._zero_rank is None and n_below:
            left = frame.filter(number >= 1).group_by(keys).len()["len"]
            of_two = number.is_in([0.0, 1.0]) | number.is_null()  # ranks of two that begin at 0
            if (left > 1).any() or not frame.select(of_two.all()).item():
                raise BadInputError(
                    f"{self._path}: {counted(n_below, 'rank')} below 1 beside ranks from 1: --zero-rank best if ranks "
                    "begin at 0, --zero-rank unranked if these answers are not ranked (over HTTP zero_rank)"
                )
        return below if self._zero_rank == "unranked" else pl.lit(value=False)

    def places(self, rows: Collection[int]) -> dict[int, str]:
        """Return the places of the rankings with these numbers, among those that were read."""
        records = {row: self._records[row] for row in rows}
        places = self._source.places(set(records.values()))
        return {row: places[record] for row, record in records.items()}

    def _read(self, wanted: Mapping[Input, str]) -> tuple[pl.DataFrame, dict[int, str]]:
        """Return all records with their numbers, and what is wrong with some."""
        frames, faults, start = [pl.DataFrame(schema=dict.fromkeys(wanted, pl.String))], dict[int, str](), 0
        for raw in map(refuse_long_values, self._source.batches(wanted)):
            for name, why in raw.unusable.items():
                faults |= {start + row: f"{wanted[name]} {detail}" for row, detail in why.items()}
            faults |= {start + row: detail for row, detail in raw.ambiguous.items()}
            frames.append(raw.frame)
            start += raw.frame.height
            if start > MAX_GRADES:
                detail = f"{self._path} has more than {MAX_GRADES:,} grades"
                raise FileTooLargeError(detail, extensions={"limit": MAX_GRADES})
        return pl.concat(frames[1:] or frames).with_row_index("record"), faults


def _fault(models: Sequence[str | None], item: str | None) -> str:
    """Return what is wrong with the grades of an item; empty where they make a ranking."""
    if not item:
        return "there is no item"
    if len(set(models)) < len(models):
        return f"{item[:100]!r} has two grades of a model by the same annotator"
    if len(models) > MOST_RANKED:
        return f"{item[:100]!r} has grades of {len(models):,} models, at most {MOST_RANKED} are ranked"
    return ""


def _ranking(models: Sequence[str | None], orders: Sequence[float]) -> str:
    groups: dict[float, list[str]] = {}
    for order, model in sorted(zip(orders, models, strict=True), key=lambda one: one[0]):
        groups.setdefault(order, []).append(model or "")
    return json.dumps(list(groups.values()))
