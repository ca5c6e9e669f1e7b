"""The rows of a vote file: one of each record, or one for each item of its lists, or one for each of some columns."""

import ast
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

import polars as pl

from app.imports.formats.schemas import Input
from app.imports.formats.sources import RawBatch, VoteSource, value_at
from app.imports.formats.values import APART, DOCUMENT, convert_each, text_of
from app.imports.formats.where import Condition

_STEP = re.compile(r"\[\]\.?|\.\*(?:\.|$)")
_LOOKED_AT = 100
_SAME = "="  # begins a text that stands for itself


class _Path(NamedTuple):
    """The column, and the paths inside of it, each from an item of the list, or a value of the object, before it."""

    column: str
    steps: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Expanded:
    """A batch of rows, and the items of the lists that they are."""

    raw: RawBatch
    items: list[str]
    left_out: int = 0


class Rows:
    """The rows of a source; a source too.

    `scores.*` stands for each value of an object, `annotations[]` for each item of a list. Several lists of a record go
    together: the first item of one with the first item of another.

    Attributes
    ----------
    cells : the columns of each row of a record, over those of the record
    conditions : what a row must say to be read
    left_out : rows that do not, in what was read
    """

    def __init__(self, source: VoteSource) -> None:
        self.kind, self._source = source.kind, source
        self.cells: Sequence[Mapping[Input, str]] = ()
        self.conditions: Sequence[Condition] = ()
        self.left_out = 0
        self._wanted: Mapping[Input, str] = {}

    @property
    def columns(self) -> Sequence[str]:
        """The names of the columns in the file."""
        return self._source.columns

    def has(self, column: str) -> bool:
        """Whether there is the column, or a value at the path inside one, in one of the first records if in a list."""
        if self._source.has(column):
            return True
        path = _parse(column)
        if not path.steps or not self._source.has(path.column):
            return False
        name = cast("Input", DOCUMENT)
        first = next(self._source.batches({name: path.column}), None)
        texts: list[str | None] = [] if first is None else first.frame[DOCUMENT].head(_LOOKED_AT).to_list()
        found = (row["x"] for text in texts for row, _ in _expand_text({"x": text}, {"x": path.steps}))
        return any(value is not None for value in found)

    def count(self) -> int:
        """Return the approximate number of rows, for progress."""
        return self._source.count() * max(1, len(self.cells))

    def batches(self, wanted: Mapping[Input, str]) -> Iterator[RawBatch]:
        """Yield the rows in the order of the records, with the wanted inputs and those of `cells`."""
        self._wanted, self.left_out = wanted, 0
        for part in self._expanded(wanted):
            self.left_out += part.left_out
            yield part.raw

    def scan(self, wanted: Mapping[Input, str]) -> Iterator[RawBatch]:
        """Yield the rows once more, beside a reading that goes on."""
        return (part.raw for part in self._expanded(wanted))

    def places(self, rows: Collection[int]) -> dict[int, str]:
        """Return the places of the rows with these numbers: `line 7, item 2`."""
        if not self._is_other(self._wanted):
            return self._source.places(rows)
        last, start, found = max(rows, default=-1), 0, dict[int, tuple[int, str]]()
        for part in self._expanded(self._wanted):
            records = part.raw.records
            assert records is not None  # noqa: S101  rows are of records
            for row in rows:
                if start <= row < start + len(records):
                    found[row] = int(records[row - start]), part.items[row - start]
            start += len(records)
            if start > last:
                break
        places = self._source.places({record for record, _ in found.values()})
        return {row: places[record] + (f", item {item}" if item else "") for row, (record, item) in found.items()}

    def _is_other(self, wanted: Mapping[Input, str]) -> bool:
        """Return whether the rows are not simply the records."""
        return bool(self.cells or self.conditions) or any(self._path(column).steps for column in wanted.values())

    def _path(self, column: str) -> _Path:
        return _Path(column) if self._source.has(column) else _parse(column)

    def _expanded(self, wanted: Mapping[Input, str]) -> Iterator[_Expanded]:
        if not self._is_other(wanted):
            yield from (_Expanded(raw, []) for raw in self._source.batches(wanted))
            return
        asked = {f"?{i}": one.column for i, one in enumerate(self.conditions)}
        plans = [{**wanted, **asked, **cell} for cell in self.cells or ({},)]
        names = list(dict.fromkeys(name for plan in plans for name in plan))
        base, start = dict[str, str](), 0
        columns = [{name: self._column(name, given, base) for name, given in plan.items()} for plan in plans]
        for raw in self._source.batches(cast("Mapping[Input, str]", base)):
            part = _select(raw, columns, names)
            deep = {name: path.steps for name, path in self._deep(plans).items()}
            frame, items, faults = _explode(part, deep)
            for one, name in zip(self.conditions, asked, strict=True):
                frame = frame.with_columns(_holds(one, pl.col(name)).alias(name))
            kept = frame.select(pl.all_horizontal(pl.lit(value=True), *asked)).to_series()
            kept = kept.new_from_index(0, frame.height) if len(kept) < frame.height else kept
            places = kept.arg_true()
            frame = frame.filter(kept).drop(*asked)
            expanded = _remapped(raw, frame, columns, {i: faults[row] for i, row in enumerate(places) if row in faults})
            records = frame["record"] + start
            out = replace(expanded, frame=frame.drop("record", "cell"), records=records)
            numbers = [items[row] for row in places] if items else [""] * frame.height
            yield _Expanded(out, numbers, len(kept) - frame.height)
            start += raw.frame.height

    def _deep(self, plans: Iterable[Mapping[str, str]]) -> dict[str, _Path]:
        """Return the inputs that are inside of lists."""
        paths = {name: self._path(given) for plan in plans for name, given in plan.items() if given[:1] != _SAME}
        return {name: path for name, path in paths.items() if path.steps}

    def _column(self, name: str, given: str, base: dict[str, str]) -> str | pl.Expr:
        """Return the name in `base` of the column that an input is read from, and put it there; or its text."""
        if given.startswith(_SAME):
            return pl.lit(given.removeprefix(_SAME))
        path = self._path(given)
        kind = DOCUMENT if path.steps else name
        called = name if kind == name and base.get(name, given) == given else f"{given}{APART}{kind}"
        base[called] = path.column
        return called


def _holds(condition: Condition, values: pl.Expr) -> pl.Expr:
    """Return whether values hold; a missing one is the empty text, and case does not count."""
    said = values.fill_null("").str.strip_chars().str.to_lowercase()
    one_of = said.is_in(list(condition.texts)) if condition.texts else pl.lit(value=True)
    return one_of & ~said.is_in(list(condition.without))


def _parse(column: str) -> _Path:
    first, *steps = _STEP.split(column)
    return _Path(first, tuple(steps))


def _select(raw: RawBatch, columns: Sequence[Mapping[str, str | pl.Expr]], names: Sequence[str]) -> pl.DataFrame:
    """Return a row of each record by each plan, with its `record` and the number of the plan as `cell`."""
    numbered = raw.frame.with_columns(record=pl.int_range(pl.len(), dtype=pl.Int64))
    nothing = pl.lit(None, pl.String)
    parts = [
        numbered.select(
            "record",
            pl.lit(cell, pl.Int64).alias("cell"),
            *((pl.col(one) if isinstance(one := plan.get(name, nothing), str) else one).alias(name) for name in names),
        )
        for cell, plan in enumerate(columns)
    ]
    return parts[0] if len(parts) == 1 else pl.concat(parts).sort("record", maintain_order=True)


def _explode(
    part: pl.DataFrame, deep: Mapping[str, tuple[str, ...]]
) -> tuple[pl.DataFrame, list[str], dict[int, dict[str | None, str]]]:
    """Return the rows with a row for each item, the items' numbers, and what is wrong: row → input → why."""
    if not deep:
        return part, [], {}
    taken, items = list[int](), list[str]()
    values, faults = {name: list[Any]() for name in deep}, dict[int, dict[str | None, str]]()
    for row, texts in enumerate(part.select(*deep).iter_rows(named=True)):
        try:
            found = list(_expand_text(texts, deep))
        except ValueError as error:
            found = [(cast("dict[str, Any]", dict.fromkeys(deep)), "")]
            faults[len(taken)] = {None: str(error)}
        for one, item in found:
            taken.append(row)
            items.append(item)
            for name, value in one.items():
                values[name].append(value)
    columns = list[pl.Series]()
    for name, given in values.items():
        shown, why = convert_each(given, text_of(cast("Input", name)))
        columns.append(pl.Series(name, shown, pl.String))
        for row, detail in why.items():
            faults.setdefault(row, {})[name] = detail
    return part[taken].with_columns(columns), items, faults


def _expand_text(
    texts: Mapping[str, str | None], steps: Mapping[str, tuple[str, ...]]
) -> Iterator[tuple[dict[str, Any], str]]:
    nodes = {text: _decoded(text) for text in dict.fromkeys(texts.values())}
    return _expand({name: nodes[text] for name, text in texts.items()}, steps, "")


def _expand(
    nodes: Mapping[str, Any], steps: Mapping[str, tuple[str, ...]], item: str
) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the values of each item, with its number such as `2` or `2.1`; of an empty list the missing ones."""
    open_ = [name for name in nodes if steps[name]]
    if not open_:
        yield dict(nodes), item
        return
    inside = {name: _items(nodes[name]) for name in open_}
    keys = list(next(iter(inside.values())))
    if other := next((name for name in open_ if list(inside[name]) != keys), None):
        raise ValueError(f"{open_[0]} and {other} are of lists with different items")
    left = {name: steps[name][1:] if name in inside else () for name in nodes}
    if not keys:
        yield {name: None if name in inside else value for name, value in nodes.items()}, item
    for place, key in enumerate(keys, start=1):
        below = {
            name: _at(inside[name][key], key, steps[name][0]) if name in inside else value
            for name, value in nodes.items()
        }
        yield from _expand(below, left, f"{item}.{place}" if item else str(place))


def _at(node: Any, key: Any, path: str) -> Any:
    if path == "~":  # the name in an object in place of the value
        return key
    return node if not path else value_at(node, path) if isinstance(node, dict | list) else None


def _items(node: Any) -> dict[Any, Any]:
    if isinstance(node, str):
        node = _decoded(node)
    if node is None:
        return {}
    if isinstance(node, dict):
        return node
    if isinstance(node, list):
        return dict(enumerate(node))
    raise ValueError("must be a list")


def _decoded(text: str | None) -> Any:
    """Return a list or an object from JSON, or as Python prints it."""
    if not text:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        raise ValueError("must be a list in JSON") from None


def _remapped(
    raw: RawBatch,
    frame: pl.DataFrame,
    columns: Sequence[Mapping[str, str | pl.Expr]],
    faults: Mapping[int, Mapping[str | None, str]],
) -> RawBatch:
    """Return the batch with what is wrong with its records, said of the rows that come from them."""
    unusable, ambiguous = dict[Input, dict[int, str]](), dict[int, str]()
    if raw.unusable or raw.ambiguous:
        for row, (record, cell) in enumerate(frame.select("record", "cell").iter_rows()):
            if record in raw.ambiguous:
                ambiguous[row] = raw.ambiguous[record]
            for name, column in columns[cell].items():
                why = raw.unusable.get(cast("Input", column), {}) if isinstance(column, str) else {}
                if record in why:
                    unusable.setdefault(cast("Input", name), {})[row] = why[record]
    for row, found in faults.items():
        for at, detail in found.items():
            if at is None:
                ambiguous[row] = detail
            else:
                unusable.setdefault(cast("Input", at), {})[row] = detail
    return RawBatch(frame, unusable, ambiguous)
