"""JSON objects: on a line each, in a list, or indented. Python decodes, because polars accepts invalid lines."""

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import polars as pl

from app.imports.formats.errors import NoVotesError, UnreadableFileError
from app.imports.formats.expansion import MAX_RECORD_BYTES, check_expansion, check_record
from app.imports.formats.inspect_logs import is_inspect_log, read_inspect_log
from app.imports.formats.schemas import Input
from app.imports.formats.sources import (
    LINES_PER_BATCH,
    UNREADABLE,
    RawBatch,
    explain_text,
    first_line,
    scan_lines,
    value_at,
)
from app.imports.formats.values import convert_each, text_of

LOOKED_AT_FOR_COLUMNS = 100
"""Objects whose keys make the file's columns; later objects may have more optional fields."""


_TOO_LATE = f"after record {LOOKED_AT_FOR_COLUMNS}, but the first records say which columns count: put it there"
_MISSING = object()
_SIGN = re.compile(r"\S")
_SIGNS = {("[", "begin"): "first", (",", "next"): "item", ("]", "first"): "end", ("]", "next"): "end"}
"""Sign and state → the state after it, for the signs between the objects of a list."""


class JsonlSource:
    """A file with a JSON object on each line, one list of objects, or indented objects one after the other.

    It may be compressed; blank lines are skipped. The records of an evaluation's log are its grades. Columns of
    `not_late` must be in one of the first objects, if they are in any.
    """

    kind = "jsonl"

    def __init__(self, path: Path) -> None:
        self._path = path
        self._n_lines = check_expansion(path)
        self._repeated: str | None = None
        self.not_late: set[str] = set()
        self._statuses: dict[str, None] = {}
        self._decoder = json.JSONDecoder(object_pairs_hook=self._as_object)

    @cached_property
    def columns(self) -> list[str]:
        """The keys of the first objects, in order of appearance; raises NoVotesError where there are none."""
        return list(dict.fromkeys(key for record in self._first for key in record))

    @property
    def notes(self) -> list[str]:
        """Of logs whose evaluation did not succeed, among those that were read."""
        return list(self._statuses)

    def has(self, column: str) -> bool:
        """Whether one of the first objects has the key, or a value at the path."""
        return any(value_at(record, column, _MISSING) is not _MISSING for record in self._first)

    def count(self) -> int:
        """Return the number of lines."""
        return self._n_lines

    def batches(self, wanted: Mapping[Input, str]) -> Iterator[RawBatch]:
        """Yield the records in order; an object with a repeated name makes its record ambiguous.

        Raises UnreadableFileError: a line is not a JSON object, or the file is not UTF-8.
        """
        objects, refused = self.objects(), self.not_late.difference(self.columns)
        while True:
            some, ambiguous = list[dict[str, Any]](), dict[int, str]()
            for record, repeated in islice(objects, LINES_PER_BATCH):
                if not refused.isdisjoint(record):
                    late = next(name for name in record if name in refused)
                    raise UnreadableFileError(f"{self._path}: {late} first comes {_TOO_LATE}")
                if repeated is not None:
                    ambiguous[len(some)] = f"an object has the name {repeated[:100]!r} more than once"
                some.append(record)
            if not some:
                return
            columns, unusable = dict[Input, list[str | None]](), dict[Input, dict[int, str]]()
            for name, column in wanted.items():
                columns[name], why = convert_each([value_at(record, column) for record in some], text_of(name))
                if why:
                    unusable[name] = why
            yield RawBatch(pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.String)), unusable, ambiguous)

    def places(self, rows: Collection[int]) -> dict[int, str]:
        """Return `line 7`, or `item 7` of a list, for the records with these numbers (blank lines not counted)."""
        looked_for, last = set(rows), max(rows, default=-1)
        if self._is_list and "place" not in self._first[0]:
            return {row: f"item {row + 1}" for row in looked_for}
        graded = (record["place"] for record, _ in self.objects())
        places = graded if "place" in self._first[0] else (f"line {line}" for line, _ in self._texts())
        return {row: place for row, place in enumerate(islice(places, last + 1)) if row in looked_for}

    @cached_property
    def _first(self) -> list[dict[str, Any]]:
        objects = [record for record, _ in islice(self.objects(), LOOKED_AT_FOR_COLUMNS)]
        if not objects:
            raise NoVotesError(f"{self._path} has no votes")
        return objects

    @cached_property
    def _is_list(self) -> bool:
        first = next(self._lines(), None)
        return first is not None and first[1].lstrip().startswith("[")

    def objects(self) -> Iterator[tuple[dict[str, Any], str | None]]:
        """Yield the objects, each with a name that is repeated in it or in an object inside it."""
        whole = self._items() if self._is_list else (self._decoded(*one) for one in self._texts())
        for record, repeated in whole:
            if not is_inspect_log(record):
                yield record, repeated
                continue
            if record["status"] != "success":
                self._statuses[f"the log of {record['eval'].get('model')} has the status {record['status']}"] = None
            for grade in read_inspect_log(record):
                yield grade, repeated

    def _items(self) -> Iterator[tuple[dict[str, Any], str | None]]:
        """Yield the objects of a list, which may stand on one line together, or on several lines each."""
        held, items, state = "", 0, "begin"
        for line, text in self._lines():
            held = f"{held}\n{text}" if held else text
            place = 0
            while found := _SIGN.search(held, place):
                sign, place = found[0], found.start()
                if (sign, state) in _SIGNS:
                    state, place = _SIGNS[sign, state], place + 1
                elif sign == "{" and state in ("first", "item"):
                    if not held.endswith(("}", "},", "]")):
                        break  # the object goes on
                    item = self._item(held, place, f"{self._path}, line {line}, item {items + 1}")
                    if item is None:
                        break
                    record, repeated, place = item
                    items, state = items + 1, "next"
                    yield record, repeated
                else:
                    reason = f"not a list of JSON objects after item {items}"
                    raise UnreadableFileError.at_line(self._path, line, reason)
            held = held[place:]
            check_record(f"{self._path}, line {line}, item {items + 1}", held)
        if state != "end":
            raise UnreadableFileError(f"{self._path}: the list ends in the middle, after item {items}")

    def _item(self, text: str, place: int, called: str) -> tuple[dict[str, Any], str | None, int] | None:
        """Return the object that begins at a place, a name repeated in it, and where it ends; None if it goes on."""
        self._repeated = None
        try:
            record, end = self._decoder.raw_decode(text, place)
        except RecursionError:
            raise UnreadableFileError(f"{called}: nested too deeply") from None
        except json.JSONDecodeError as error:
            if error.pos >= len(text.rstrip()):  # no JSON text goes on in the next line but between two signs
                return None
            raise UnreadableFileError(f"{called}: not JSON: {error.msg}") from None
        except ValueError as error:  # a number of too many digits
            raise UnreadableFileError(f"{called}: not JSON: {first_line(error)}") from None
        check_record(called, text[place:end])
        return record, self._repeated, end

    def _texts(self) -> Iterator[tuple[int, str]]:
        """Yield the objects with their first lines; one that begins with a line `{` ends with a line `}`."""
        start, parts, held = 0, list[str](), 0
        for line, text in self._lines():
            sign = text.rstrip()
            if not parts and sign != "{":
                yield line, text
                continue
            start, held = (start, held + len(text)) if parts else (line, 1)
            parts.append("}" if sign == "}{" else text)  # a program may end its file without a line end
            if held > MAX_RECORD_BYTES or sign in ("}", "}{"):
                check_record(f"{self._path}, line {start}", "\n".join(parts))
                yield start, "\n".join(parts)
                start, parts, held = line, ["{"] if sign == "}{" else [], 1
        if parts:
            yield start, "\n".join(parts)

    def _lines(self) -> Iterator[tuple[int, str]]:
        try:
            for line, text in enumerate(scan_lines(self._path), start=1):
                if text and not text.isspace():
                    yield line, text
        except UNREADABLE as error:
            raise explain_text(self._path, error, "JSON lines") from error

    def _decoded(self, line: int, text: str) -> tuple[dict[str, Any], str | None]:
        """Return the object of a line, and a name that is repeated in it or in an object inside it."""
        check_record(f"{self._path}, line {line}", text)
        self._repeated = None
        try:
            record = self._decoder.decode(text)
        except RecursionError:
            raise UnreadableFileError.at_line(self._path, line, "nested too deeply") from None
        except ValueError as error:
            raise UnreadableFileError.at_line(self._path, line, f"not JSON: {first_line(error)}") from None
        if not isinstance(record, dict):
            raise UnreadableFileError.at_line(self._path, line, "not a JSON object")
        return record, self._repeated

    def _as_object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        content = dict(pairs)
        if len(content) < len(pairs):
            times = Counter(name for name, _ in pairs)
            self._repeated = next(name for name in times if times[name] > 1)
        return content
