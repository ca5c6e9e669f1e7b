"""Imports files of answers: CSV, JSON and Parquet, as arenas and benchmarks write them."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError
from sqlalchemy import Connection

from app.answers.schemas import MAX_ANSWERS, AnswerCounts, NewAnswer
from app.answers.service import note_recorded, record_answers
from app.audit import service as audit
from app.database.engine import Database
from app.errors import BadInputError, FieldError, StableArenaError, validation_message
from app.imports.formats.errors import FileTooLargeError
from app.imports.formats.opening import SOURCES
from app.imports.formats.schemas import ColumnsError, Input
from app.imports.formats.sources import RawBatch, VoteSource, check_columns, refuse_long_values
from app.imports.formats.xlsx import XlsxSource
from app.naming.service import resolve_models
from app.rating.errors import counted

MAX_FILE_BYTES = 1024**3
_MOST_FAULTS = 100

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "prompt": ("prompt", "instruction", "question", "messages.0.content"),
    "model": ("model", "generator", "model_id"),
    "answer": (
        "answer", "output", "response", "messages.1.content.answer", "messages.1.content", "choices.0.turns.0.content",
        "choices.0.turns.0",
    ),
    "language": ("language",),
    "category": ("category", "dataset"),
    "reference": ("reference",),
}  # fmt: skip
"""Our names and the columns that have them: the first that a file has. Outputs of AlpacaEval have `instruction`,
`output` and `generator`; answers of Arena-Hard have `messages` or, in v0.1 as in MT-Bench, `choices` and the number of
a question, which another file has."""
_REQUIRED = ("prompt", "model", "answer")
_QUESTION = {"question": ("question_id",)}
_QUESTIONS = {**_QUESTION, "prompt": ("turns.0.content", "turns.0"), "category": ("category",)}
Questions = Mapping[str | None, Mapping[str, str | None]]


@dataclass(frozen=True)
class AnswersFile:
    """A file of answers that was read once, to its end, and is valid."""

    models: frozenset[str]
    answers: int
    pieces: Callable[[], Iterator[list[NewAnswer]]]
    """Yields the answers in pieces that are recorded at once."""


def read_answers(path: Path, questions: Path | None = None) -> AnswersFile:
    """Read a file to its end, in batches, and check every record.

    `questions`: a file with the prompts of answers that have `question_id` in place of a prompt.
    Raises BadInputError: it is no file of answers, it is too large, or a record is not valid: the first hundred faults
    are listed.
    """
    asked = {} if questions is None else _read_questions(questions)
    source = _open(path)
    by_question = not any(source.has(column) for column in COLUMNS["prompt"]) and source.has("question_id")
    if by_question and questions is None:
        raise BadInputError(f"{path} has question_id in place of prompts: name the file of questions (--questions)")
    columns = {**COLUMNS, **_QUESTION} if by_question else COLUMNS
    wanted = _choose(path, source, columns, ("question", *_REQUIRED[1:]) if by_question else _REQUIRED)
    pieces = partial(_pieces, path, source, wanted, asked)
    models, answers = set[str](), 0
    for piece in pieces():
        models.update(one.model for one in piece)
        answers += len(piece)
    if not answers:
        raise BadInputError(f"{path} has no answers")
    return AnswersFile(frozenset(models), answers, pieces)


def _read_questions(path: Path) -> Questions:
    source = _open(path)
    wanted = _choose(path, source, _QUESTIONS, ("question", "prompt"))
    found = (row for raw in source.batches(wanted) for row in raw.frame.iter_rows(named=True))
    return {row.pop("question"): row for row in found}


def import_answers(
    database: Database, path: Path, *, replace: bool, recorded_by: str, questions: Path | None = None
) -> AnswerCounts:
    """Record the answers of a file that is valid as a whole. The same file again changes nothing.

    New models come first, in a transaction of their own, so that votes on them need not wait. Then each piece is
    committed. An import that fails between them says how many answers it has dealt with.

    Raises BadInputError: see `read_answers`. Also for an unknown model, if the settings refuse those.
    """
    file = read_answers(path, questions)
    with database.begin() as conn:
        names = resolve_models(conn, {(model, None) for model in file.models})
    if unknown := sorted(model for model in file.models if names.number(model, None) is None):
        raise BadInputError(f"{path} has answers of {counted(len(unknown), 'unknown model')}: {', '.join(unknown[:5])}")
    total, done, begun = AnswerCounts(), 0, False
    try:
        for piece in file.pieces():
            with database.begin() as conn:
                counts = _sum(total, record_answers(conn, piece, replace=replace))
                if done + len(piece) == file.answers:
                    note_recorded(conn, counts, subject=path.name, recorded_by=recorded_by)
                elif not begun and (counts.created or counts.replaced):
                    detail = {"answers": file.answers}
                    audit.record(conn, actor=recorded_by, action="answers.begin", subject=path.name, detail=detail)
                    begun = True
            total, done = counts, done + len(piece)
    except StableArenaError as error:
        error.detail += f"; {done:,} of {counted(file.answers, 'answer')} are in, the same file again adds the others"
        raise
    return total


def try_answers(conn: Connection, path: Path, *, replace: bool) -> tuple[AnswerCounts, int, int]:
    """Record the first piece of a file, in a transaction that the caller rolls back.

    Returns what became of it, its size, and how many answers the file has.
    """
    file = read_answers(path)
    piece = next(file.pieces())
    return record_answers(conn, piece, replace=replace), len(piece), file.answers


def _pieces(path: Path, source: VoteSource, wanted: Mapping[Input, str], asked: Questions) -> Iterator[list[NewAnswer]]:
    faults, read = dict[int, list[FieldError]](), 0
    for raw in map(refuse_long_values, source.batches(wanted)):
        given = list[NewAnswer]()
        for row, one in enumerate(_records(raw, asked)):
            if isinstance(one, NewAnswer):
                given.append(one)
            elif len(faults) < _MOST_FAULTS:
                faults[read + row] = one
        read += raw.frame.height
        for start in range(0, len(given), MAX_ANSWERS):
            yield given[start : start + MAX_ANSWERS]
    if faults:
        places = source.places(faults)
        errors = tuple(
            FieldError(f"{places[row]}, {e.pointer}", e.detail) for row, some in faults.items() for e in some
        )
        raise BadInputError(f"{path}: {errors[0].pointer} {errors[0].detail}; no answer was recorded", errors)


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
    check_columns(path, len(source.columns))
    return source


def _choose(
    path: Path, source: VoteSource, columns: Mapping[str, tuple[str, ...]], required: tuple[str, ...]
) -> Mapping[Input, str]:
    """Return our names and the file's columns. Sources read texts by any names: those of votes are no matter here."""
    found = {name: next((column for column in known if source.has(column)), None) for name, known in columns.items()}
    if missing := [name for name in required if found[name] is None]:
        raise ColumnsError(f"{path} has no column for {' and '.join(missing)}; it has ", list(source.columns)[:20])
    return cast("Mapping[Input, str]", {name: column for name, column in found.items() if column is not None})


def _records(raw: RawBatch, asked: Questions) -> Iterator[NewAnswer | list[FieldError]]:
    """Yield each record of a batch, or what is wrong with it."""
    unusable = cast("Mapping[str, Mapping[int, str]]", raw.unusable)
    for row, values in enumerate(raw.frame.iter_rows(named=True)):
        wrong = [FieldError(name, why[row]) for name, why in unusable.items() if row in why]
        if row in raw.ambiguous:
            wrong.append(FieldError("record", raw.ambiguous[row]))
        question = asked.get(values.pop("question"), {}) if "question" in values else {}
        yield wrong or _check({**values, **question})


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
