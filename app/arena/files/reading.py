import hashlib
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from app.arena.files.checks import check_batch
from app.arena.files.csv import CsvSource
from app.arena.files.jsonl import JsonlSource
from app.arena.files.parquet import ParquetSource
from app.arena.files.schemas import Field, Schema, choose_schema
from app.arena.files.sources import VoteSource
from app.errors import BadInputError, Fault

MAX_FAULTS = 1_000

SOURCES: dict[str, Callable[[Path], VoteSource]] = {
    ".csv": CsvSource,
    ".csv.gz": CsvSource,
    ".csv.zst": CsvSource,
    ".jsonl": JsonlSource,
    ".jsonl.gz": JsonlSource,
    ".jsonl.zst": JsonlSource,
    ".parquet": ParquetSource,
}


@dataclass(frozen=True)
class VoteFile:
    """The votes of a file, and what in it is none.

    Attributes
    ----------
    path : the file.
    schema : name of the format it was read as.
    frame : one row a vote, in file order: annotator, model_a, model_b (text), outcome (0 model_a, 1 model_b,
        2 tie, 3 tie (bothbad)), battle_id, voted_at (UTC), tags (list of text), metadata (JSON text), each of
        these four null where not given, and row, the record's number in the file from 0.
    rows_read : records in the file, faulty ones included, blank lines not.
    rejected : records that are no votes.
    faults : the first 1,000 of them, one place and reason each.
    pooled : whether everyone was taken as one annotator, named "pooled".
    """

    path: Path
    schema: str
    frame: pl.DataFrame
    rows_read: int
    rejected: int
    faults: list[Fault] = field(default_factory=list)
    pooled: bool = False


def read_vote_file(
    path: Path,
    *,
    schema: str | None = None,
    pooled: bool = False,
    progress: Callable[[float], None] | None = None,
) -> VoteFile:
    """Read a CSV, JSONL or Parquet file of votes, in batches, keeping only the columns of a vote.

    Parameters
    ----------
    path : its name's ending says what it is; CSV and JSONL may be compressed (.gz, .zst).
    schema : name of the format; by default the first of `SCHEMAS` that the columns fit.
    pooled : take every vote as one annotator's, whatever the file says.
    progress : called with the share of the file that has been read, 0 to 1.

    Raises
    ------
    BadInputError
        The file as a whole is no vote file: not there, empty, of unknown kind, columns missing or repeated,
        not UTF-8, broken at some line. Faulty records do not raise, they are listed in the result.
    """
    source = _source(path)
    try:
        form = choose_schema(source.columns, name=schema, pooled=pooled)
    except BadInputError as error:
        raise BadInputError(f"{path}: {error.detail}") from error
    total = source.count() if progress else 0
    rows_read = rejected = 0
    votes: list[pl.DataFrame] = []
    found: list[tuple[int, Field, str]] = []
    for raw in source.batches(form.columns(pooled=pooled)):
        room = MAX_FAULTS - len(found)
        checked = check_batch(raw, form, pooled=pooled, first_row=rows_read, max_faults=room)
        rows_read += raw.frame.height
        rejected += checked.rejected
        votes.append(checked.votes)
        found += checked.faults
        if progress:
            progress(min(1.0, rows_read / max(1, total)))
    if not rows_read:
        raise BadInputError(f"{path} has no votes")
    return VoteFile(
        path=path,
        schema=form.name,
        frame=pl.concat(votes),
        rows_read=rows_read,
        rejected=rejected,
        faults=_placed(found, source, form),
        pooled=pooled,
    )


def find_places(file: VoteFile, rows: Collection[int]) -> dict[int, str]:
    """Return where in the file these records are (`line 7`), by their number: the frame's column `row`."""
    return _source(file.path).places(rows) if rows else {}


def file_sha256(path: Path) -> bytes:
    """Return the SHA-256 digest of the file's bytes."""
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").digest()


def _source(path: Path) -> VoteSource:
    if path.is_dir():
        raise BadInputError(f"{path} is a folder, not a file")
    if not path.exists():
        raise BadInputError(f"{path} does not exist")
    kind = "".join(path.suffixes[-2:]).lower()
    make = SOURCES.get(kind) or SOURCES.get(path.suffix.lower())
    if make is None:
        raise BadInputError(f"{path} is of unknown kind; known are {', '.join(SOURCES)}")
    try:
        with path.open("rb") as content:
            if not content.read(1):
                raise BadInputError(f"{path} is empty")
    except OSError as error:
        raise BadInputError(f"{path} cannot be read: {error.strerror}") from error
    return make(path)


def _placed(found: list[tuple[int, Field, str]], source: VoteSource, form: Schema) -> list[Fault]:
    if not found:
        return []
    columns = form.columns(pooled=False)
    places = source.places([row for row, _, _ in found])
    return [Fault(f"{places[row]}, {columns[name]}", detail) for row, name, detail in found]
