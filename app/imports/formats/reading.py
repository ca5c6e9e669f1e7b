import hashlib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import polars as pl

from app.errors import BadInputError, FieldError
from app.imports.formats.checks import Checked, RecordFault, check_batch
from app.imports.formats.csv import CsvSource
from app.imports.formats.expansion import MAX_EXPANDED_BYTES, check_expansion
from app.imports.formats.jsonl import JsonlSource
from app.imports.formats.parquet import ParquetSource
from app.imports.formats.schemas import Form, choose_form
from app.imports.formats.schemas.choosing import ColumnsError
from app.imports.formats.sources import VoteSource
from app.votes.rules import WINNERS

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
class ReadOptions:
    """The options of reading a file.

    Attributes
    ----------
    schema : name of the format; by default the first of `SCHEMAS` that fits the columns.
    annotator_column : the column with the annotator; by default the first known one.
    pooled : treat all votes as those of one annotator.
    """

    schema: str | None = None
    annotator_column: str | None = None
    pooled: bool = False


class VoteReader:
    """A vote file, read in batches of bounded size; it can be read several times.

    Parameters
    ----------
    path : the ending of its name gives the kind; CSV and JSONL may be compressed (.gz, .zst).
    ending : replaces the ending of the name.
    max_expanded_bytes : largest size of the text; see `check_expansion` and `ParquetSource.check_size`.

    Raises
    ------
    BadInputError
        The file is no vote file: missing, empty, of unknown kind, too large, or with missing or repeated columns.
        Reading it raises the same where it is not UTF-8, or has a damaged line.
    """

    def __init__(
        self, path: Path, options: ReadOptions, *, max_expanded_bytes: int | None = None, ending: str | None = None
    ) -> None:
        self.path = path
        self._opened_at = datetime.now(UTC)  # every reading refuses the same votes as cast in the future
        self._source = _source(path, ending)
        limit = MAX_EXPANDED_BYTES if max_expanded_bytes is None else max_expanded_bytes
        if not isinstance(self._source, ParquetSource):
            check_expansion(path, max_bytes=limit)
        columns = self._source.columns  # names the file itself where it cannot be read
        try:
            self._form = choose_form(
                columns,
                self._source.has,
                kind=self._source.kind,
                name=options.schema,
                annotator_column=options.annotator_column,
                pooled=options.pooled,
            )
        except ColumnsError as error:
            raise error.of_file(path) from error
        except BadInputError as error:
            raise BadInputError(f"{path}: {error.detail}") from error
        if isinstance(self._source, ParquetSource):
            self._source.check_size(self._form.columns, max_bytes=limit)

    @property
    def form(self) -> Form:
        """The detected format of the file."""
        return self._form

    @property
    def names_votes(self) -> bool:
        """Whether the file has the ids of votes that this service exported."""
        column = self._form.columns.get("vote_id")
        return column is not None and self._source.has(column)

    def count(self) -> int:
        """Return the approximate number of records, for progress."""
        return self._source.count()

    def batches(self, *, max_faults: int) -> Iterator[Checked]:
        """Yield the records in order, checked; lists at most `max_faults` errors of the whole file.

        Raises
        ------
        BadInputError : see the class; also for a file without a record.
        """
        read = listed = 0
        for raw in self._source.batches(self._form.columns):
            checked = check_batch(raw, self._form, first_row=read, max_faults=max_faults - listed, now=self._opened_at)
            read += checked.records
            listed += len(checked.faults)
            yield checked
        if not read:
            raise BadInputError(f"{self.path} has no votes")

    def places(self, records: Collection[int]) -> dict[int, str]:
        """Return the places in the file (`line 7`) of these records, by their number in the column `row`."""
        return self._source.places(records) if records else {}

    def placed(self, found: Sequence[RecordFault]) -> list[FieldError]:
        """Return the errors with their places in the file: `line 7, winner`."""
        columns = self._form.columns
        places = self.places([row for row, _, _ in found])
        return [
            FieldError(f"{places[row]}, {columns.get(name, name)}" if name else places[row], detail)
            for row, name, detail in found
        ]


@dataclass(frozen=True)
class VoteFile:
    """The votes of a file, and its other records.

    An annotator votes on a battle once: of several votes with the same battle_id the first counts, as in the service.

    Attributes
    ----------
    path : the file.
    schema : name of its format.
    annotator_column : the column with the annotator; None for pooled votes.
    frame : one row for each vote, in file order: annotator, model_a, model_b (text), outcome (0 model_a, 1 model_b,
        2 tie, 3 tie (bothbad)), battle_id, voted_at (UTC), tags (list of text), metadata (JSON text), each of
        these four null where not given, and row, the record's number in the file from 0.
    rows_read : records in the file, including skipped and invalid ones, without blank lines.
    skipped : records without a vote.
    rejected : invalid records.
    duplicates : votes left out because their annotator has an earlier vote on the battle.
    faults : the first 1,000 invalid records, with one place and reason each.
    pooled : whether all votes count as those of one annotator, named "pooled".
    """

    path: Path
    schema: str
    annotator_column: str | None
    frame: pl.DataFrame
    rows_read: int
    skipped: int
    rejected: int
    duplicates: int
    faults: list[FieldError] = field(default_factory=list)
    pooled: bool = False

    @property
    def table(self) -> pl.DataFrame:
        """The votes with their outcome words, as the estimators of `app.rating` take them."""
        words = pl.col("outcome").replace_strict(dict(enumerate(WINNERS)), return_dtype=pl.String)
        return self.frame.select("annotator", "model_a", "model_b", words.alias("winner"), "battle_id")


def read_vote_file(
    path: Path,
    *,
    schema: str | None = None,
    annotator_column: str | None = None,
    pooled: bool = False,
    progress: Callable[[float], None] | None = None,
) -> VoteFile:
    """Read a whole CSV, JSONL or Parquet file of votes, and keep the columns of a vote.

    Parameters
    ----------
    schema, annotator_column, pooled : see `ReadOptions`.
    progress : called with the share of the file that has been read, 0 to 1.

    Raises
    ------
    BadInputError
        See `VoteReader`. Invalid records are listed in the result.
    """
    reader = VoteReader(path, ReadOptions(schema, annotator_column, pooled))
    total = reader.count() if progress else 0
    read = 0
    batches: list[Checked] = []
    for checked in reader.batches(max_faults=MAX_FAULTS):
        batches.append(checked)
        read += checked.records
        if progress:
            progress(min(1.0, read / max(1, total)))
    votes = pl.concat([batch.votes for batch in batches])
    frame = _without_repeats(votes)
    return VoteFile(
        path=path,
        schema=reader.form.schema.name,
        annotator_column=reader.form.annotator,
        frame=frame,
        rows_read=read,
        skipped=sum(batch.skipped for batch in batches),
        rejected=sum(batch.rejected for batch in batches),
        duplicates=votes.height - frame.height,
        faults=reader.placed([fault for batch in batches for fault in batch.faults]),
        pooled=pooled,
    )


def _without_repeats(votes: pl.DataFrame) -> pl.DataFrame:
    key = votes.select("battle_id", "annotator")
    return votes.filter(key["battle_id"].is_null() | key.to_struct().is_first_distinct())


def file_sha256(path: Path) -> bytes:
    """Return the SHA-256 digest of the file's bytes."""
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").digest()


def _source(path: Path, ending: str | None) -> VoteSource:
    if path.is_dir():
        raise BadInputError(f"{path} is a folder, not a file")
    if not path.exists():
        raise BadInputError(f"{path} does not exist")
    kind = ending or "".join(path.suffixes[-2:]).lower()
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
