"""Imports files of answers: CSV, JSON and Parquet, as arenas and benchmarks write them."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError
from sqlalchemy import Connection

from app.answers.schemas import MAX_ANSWERS, AnswerCounts, NewAnswer
from app.answers.service import note_recorded, record_answers
from app.errors import BadInputError, FieldError, validation_message
from app.imports.formats.errors import FileTooLargeError
from app.imports.formats.expansion import check_expansion
from app.imports.formats.parquet import ParquetSource
from app.imports.formats.reading import SOURCES
from app.imports.formats.schemas import ColumnsError, Input
from app.imports.formats.sources import RawBatch, VoteSource, check_columns, refuse_long_values
from app.imports.formats.xlsx import XlsxSource

MAX_FILE_BYTES = 1024**3
_MOST_FAULTS = 100

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "prompt": ("prompt", "instruction", "question", "messages.0.content"),
    "model": ("model", "generator", "model_id"),
    "answer": ("answer", "output", "response", "messages.1.content.answer", "messages.1.content"),
    "language": ("language",),
    "category": ("category", "dataset"),
    "reference": ("reference",),
}
"""Our names and the columns that have them: the first that a file has. Outputs of AlpacaEval have `instruction`,
`output` and `generator`; answers of Arena-Hard have `messages`."""
_REQUIRED = ("prompt", "model", "answer")


def import_answers(conn: Connection, path: Path, *, replace: bool, recorded_by: str) -> AnswerCounts:
    """Record the answers of a file in the caller's transaction: all of them, or none.

    The file is read in batches. The same file again changes nothing.

    Raises
    ------
    BadInputError
        It is no file of answers, it is too large, or a record is not valid: the first hundred faults are listed.
    """
    source = _open(path)
    wanted = _choose(path, source)
    if isinstance(source, ParquetSource):
        source.check_size(wanted)
    total, faults, read = AnswerCounts(), dict[int, list[FieldError]](), 0
    for raw in map(refuse_long_values, source.batches(wanted)):
        given = list[NewAnswer]()
        for row, one in enumerate(_records(raw)):
            if isinstance(one, NewAnswer):
                given.append(one)
            elif len(faults) < _MOST_FAULTS:
                faults[read + row] = one
        read += raw.frame.height
        for start in range(0, 0 if faults else len(given), MAX_ANSWERS):
            total = _sum(total, record_answers(conn, given[start : start + MAX_ANSWERS], replace=replace))
    if faults:
        places = source.places(faults)
        errors = tuple(
            FieldError(f"{places[row]}, {e.pointer}", e.detail) for row, some in faults.items() for e in some
        )
        raise BadInputError(f"{path}: {errors[0].pointer} {errors[0].detail}; no answer was recorded", errors)
    if not read:
        raise BadInputError(f"{path} has no answers")
    note_recorded(conn, total, subject=path.name, recorded_by=recorded_by)
    return total


def _open(path: Path) -> VoteSource:
    ending = next((one for one in sorted(SOURCES, key=len, reverse=True) if path.name.lower().endswith(one)), None)
    if ending is None or SOURCES[ending] is XlsxSource:
        raise BadInputError(f"{path}: answers are read from .jsonl, .json, .csv, .tsv (also .gz, .zst) and .parquet")
    if not path.is_file():
        raise BadInputError(f"{path} is not a file")
    if (size := path.stat().st_size) > MAX_FILE_BYTES:
        detail = f"{path} has {size:,} bytes, at most {MAX_FILE_BYTES:,} are read: write it as several files"
        raise FileTooLargeError(detail, extensions={"limit": MAX_FILE_BYTES})
    source = SOURCES[ending](path)
    if not isinstance(source, ParquetSource):
        check_expansion(path, quoted=source.kind == "csv")
    check_columns(path, len(source.columns))
    return source


def _choose(path: Path, source: VoteSource) -> Mapping[Input, str]:
    """Return our names and the file's columns. Sources read texts by any names: those of votes are no matter here."""
    found = {name: next((column for column in known if source.has(column)), None) for name, known in COLUMNS.items()}
    if missing := [name for name in _REQUIRED if found[name] is None]:
        raise ColumnsError(f"{path} has no column for {' and '.join(missing)}; it has ", list(source.columns)[:20])
    return cast("Mapping[Input, str]", {name: column for name, column in found.items() if column is not None})


def _records(raw: RawBatch) -> Iterator[NewAnswer | list[FieldError]]:
    """Yield each record of a batch, or what is wrong with it."""
    unusable = cast("Mapping[str, Mapping[int, str]]", raw.unusable)
    for row, values in enumerate(raw.frame.iter_rows(named=True)):
        wrong = [FieldError(name, why[row]) for name, why in unusable.items() if row in why]
        if row in raw.ambiguous:
            wrong.append(FieldError("record", raw.ambiguous[row]))
        yield wrong or _check(values)


def _check(values: Mapping[str, Any]) -> NewAnswer | list[FieldError]:
    given = {name: value for name, value in values.items() if value is not None}
    given.setdefault("answer", "")  # a model may say nothing; CSV and polars write this as null
    try:
        return NewAnswer.model_validate(given)
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False)
        return [FieldError(str(one["loc"][0]), validation_message(one)) for one in details]


def _sum(one: AnswerCounts, other: AnswerCounts) -> AnswerCounts:
    return AnswerCounts(**{name: getattr(one, name) + getattr(other, name) for name in AnswerCounts.model_fields})
