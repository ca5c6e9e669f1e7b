"""Grades of answers as rankings: those that one annotator gives to the models on one item are one ranking."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import polars as pl

from app.errors import BadInputError
from app.imports.formats.errors import FileTooLargeError, NoVotesError
from app.imports.formats.options import ZeroRank
from app.imports.formats.rows import Rows
from app.imports.formats.schemas import Input
from app.imports.formats.sources import RawBatch, refuse_long_values
from app.rating.errors import counted
from app.votes.rules import HOW, MOST_RANKED

MAX_GRADES = 10_000_000
"""They are held in memory: those of one ranking may stand anywhere in the file."""

_KEYS: tuple[Input, ...] = ("battle_id", "annotator", "criterion")
_ONE_EACH = "an annotator has graded at most one model of each item: the grades of all models must be in one file"
_BEST, _BETWEEN, _WORST = "1", "2", "3"


class RankingsOfGrades:
    """The rankings of a file with a model and its grade, or its rank, in each row.

    The best grade is the highest, the best rank the lowest. A row without a grade takes no part, and the only grade
    of an item is no vote. A ranking has the place of its first row, or of its first invalid one. `zero_rank` says
    whether a rank below 1 is the best or none. If `by_record`, the item is the record. `most` models are
    ranked together.
    """

    def __init__(
        self,
        path: Path,
        source: Rows,
        *,
        zero_rank: ZeroRank | None = None,
        by_record: bool = False,
        most: int = MOST_RANKED,
    ) -> None:
        self._path, self._source, self._zero_rank, self._by_record = path, source, zero_rank, by_record
        self._most = most
        self._rows: list[int] = []
        self.notes: list[str] = []

    def batches(self, wanted: Mapping[Input, str]) -> Iterator[RawBatch]:
        """Yield the rankings, all at once.

        Raises
        ------
        NoVotesError, FileTooLargeError
        BadInputError
            Some ranks are below 1, and it is not clear what they mean.
        """
        frame, faults = self._read(wanted)
        if "best" in frame.columns:
            frame = _with_ranks(frame)
        if "passed" in frame.columns:
            frame = frame.with_columns(grade=_or_passed())
        grade: Input = "rank" if "rank" in frame.columns else "grade"
        keys = [name for name in _KEYS if name in frame.columns and not (self._by_record and name == "battle_id")]
        others = [name for name in frame.columns if name not in (*keys, "model", "row", "record", *_OF_GRADES)]
        by = [*(["record"] if self._by_record else []), *keys]
        number, given = pl.col(grade).cast(pl.Float64, strict=False), pl.col(grade).fill_null("") != ""
        if self._by_record:  # a row may have fewer answers
            given &= pl.col("model").fill_null("") != ""
        strange = frame.filter(given & ~number.is_finite().fill_null(value=False))
        called = "best or worst" if "best" in frame.columns else wanted.get(grade, grade)
        detail = "is none of the answers" if "best" in frame.columns else "must be a number"
        faults |= dict.fromkeys(strange["row"], f"{called} {detail}")
        if grade == "rank":
            given &= ~self._unranked(frame, by, number)
        order = number * (1 if grade == "rank" else -1)
        groups = (
            frame.filter(given | pl.col("row").is_in(list(faults)))
            .group_by(by, maintain_order=True)
            .agg("row", "model", order.alias("order"), pl.col(others).drop_nulls().first())
        )
        if groups["row"].list.len().max() == 1 and not faults:
            raise NoVotesError(f"{self._path}: {_ONE_EACH}")
        ambiguous, rankings, self._rows = dict[int, str](), list[str | None](), []
        items = groups["battle_id"] if not self._by_record else groups.select(pl.lit("record")).to_series()
        items = items.new_from_index(0, groups.height) if len(items) < groups.height else items
        for (rows, models, orders), item in zip(groups.select("row", "model", "order").iter_rows(), items, strict=True):
            bad = next((row for row in rows if row in faults), None)
            fault = faults[bad] if bad is not None else _fault(models, item, self._most)
            if fault:
                ambiguous[len(rankings)] = fault
            rankings.append(None if fault or len(models) == 1 else _ranking(models, orders))
            self._rows.append(rows[0] if bad is None else bad)
        yield RawBatch(groups.select(*keys, *others, ranking=pl.Series(rankings, dtype=pl.String)), ambiguous=ambiguous)

    def _unranked(self, frame: pl.DataFrame, keys: Sequence[str], number: pl.Expr) -> pl.Expr:
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
            self.notes = ["ranks are read as beginning at 0: the lowest is the best"]
        return below if self._zero_rank == "unranked" else pl.lit(value=False)

    def places(self, rows: Collection[int]) -> dict[int, str]:
        """Return the places of the rankings with these numbers, among those that were read."""
        of_source = {row: self._rows[row] for row in rows}
        places = self._source.places(set(of_source.values()))
        return {row: places[one] for row, one in of_source.items()}

    def _read(self, wanted: Mapping[Input, str]) -> tuple[pl.DataFrame, dict[int, str]]:
        """Return all rows with their numbers, and what is wrong with some."""
        frames, faults, start = list[pl.DataFrame](), dict[int, str](), 0
        for raw in map(refuse_long_values, self._source.batches(wanted)):
            for name, why in raw.unusable.items():
                faults |= {start + row: f"{wanted.get(name, name)} {detail}" for row, detail in why.items()}
            faults |= {start + row: detail for row, detail in raw.ambiguous.items()}
            frames.append(raw.frame.with_columns([] if raw.records is None else raw.records.alias("record")))
            start += raw.frame.height
            if start > MAX_GRADES:
                detail = f"{self._path} has more than {MAX_GRADES:,} grades"
                raise FileTooLargeError(detail, extensions={"limit": MAX_GRADES})
        if not frames:
            raise NoVotesError(f"{self._path} has no votes")
        return pl.concat(frames).with_row_index("row"), faults


_OF_GRADES: tuple[Input, ...] = ("grade", "rank", "passed", "best", "worst", "option")


def _with_ranks(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the ranks of the answers of which the best, and perhaps the worst, is named; any others are between.

    The name is that of the model, or of its column, a letter, or the number of the answer.
    """
    named = {name: pl.col(name).fill_null("").str.strip_chars() for name in ("best", "worst") if name in frame.columns}
    hits = {
        name: (said == pl.col("model")).fill_null(value=False)
        | pl.col("option").str.split("|").list.contains(said.str.to_lowercase())
        for name, said in named.items()
    }
    frame = frame.with_columns(hit.alias(f"is {name}") for name, hit in hits.items())
    known = pl.col("is best").any().over("record") & (pl.lit(value=True) if "worst" not in hits else (
        pl.col("is worst").any().over("record") & ~(pl.col("is worst") & pl.col("is best")).any().over("record")
    ))  # fmt: skip
    between = pl.lit(_BETWEEN)
    if "worst" in hits:
        between = pl.when(pl.col("is worst")).then(pl.lit(_WORST)).otherwise(between)
    empty = pl.all_horizontal(said == "" for said in named.values())
    rank = pl.when(empty).then(pl.lit("")).when(~known).then(pl.lit("?"))
    return frame.with_columns(rank=rank.when(pl.col("is best")).then(pl.lit(_BEST)).otherwise(between)).drop(
        *(f"is {name}" for name in hits)
    )


def _or_passed() -> pl.Expr:
    """Return the score, or 1 or 0 where there is none and the answer passed or not."""
    score, passed = pl.col("grade"), pl.col("passed").replace({"true": "1", "false": "0"})
    return pl.when(score.fill_null("").is_in(["", "Error", "Skipped"])).then(passed).otherwise(score)


def _fault(models: Sequence[str | None], item: str | None, most: int) -> str:
    """Return what is wrong with the grades of an item; empty where they make a ranking."""
    if not item:
        return "there is no item"
    if len(set(models)) < len(models):
        return f"{item[:100]!r} has two grades of a model by the same annotator"
    if len(models) > most:
        how = HOW if most == MOST_RANKED else ""
        return f"{item[:100]!r} has grades of {len(models):,} models, at most {most} are ranked{how}"
    return ""


def _ranking(models: Sequence[str | None], orders: Sequence[float]) -> str:
    groups: dict[float, list[str]] = {}
    for order, model in sorted(zip(orders, models, strict=True), key=lambda one: one[0]):
        groups.setdefault(order, []).append(model or "")
    return json.dumps(list(groups.values()))
