import hashlib
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import polars as pl

from app.errors import BadInputError
from app.imports.formats.checks import Checked, RecordFault, check_batch
from app.imports.formats.csv import CsvSource
from app.imports.formats.errors import NoVotesError, UnreadableFileError
from app.imports.formats.grades import RankingsOfGrades
from app.imports.formats.jsonl import JsonlSource
from app.imports.formats.langwatch import unfold_grades
from app.imports.formats.measures import find_measures, measure_columns
from app.imports.formats.options import DayOrder, ReadOptions
from app.imports.formats.parquet import ParquetSource
from app.imports.formats.report import FileReport, RecordError
from app.imports.formats.schemas import (
    ColumnsError,
    Input,
    choose_form,
    read_columns,
    read_verdicts,
    with_verdicts,
)
from app.imports.formats.sources import RawBatch, VoteSource, check_columns, refuse_long_values
from app.imports.formats.timestamps import (
    DatesError,
    describe_order,
    epoch_unit,
    find_order,
    has_slashed,
)
from app.imports.formats.xlsx import XlsxSource

_TEXTS: dict[str, Callable[[Path], VoteSource]] = {
    ".csv": CsvSource, ".tsv": CsvSource, ".json": JsonlSource, ".jsonl": JsonlSource,
}  # fmt: skip
SOURCES: dict[str, Callable[[Path], VoteSource]] = {
    **{ending + packed: make for ending, make in _TEXTS.items() for packed in ("", ".gz", ".zst")},
    ".parquet": ParquetSource,
    ".xlsx": XlsxSource,
}
"""By the ending of the file's name; texts may be compressed."""

Receiver = Callable[[Checked], Sequence[tuple[int, str]] | None]
"""Takes a checked batch, and returns the numbers of records whose votes it cannot take, each with the reason."""

_MOST_WORDS, _MOST_SHOWN, _LONGEST_SHOWN = 1_000, 10, 80


class VoteReader:
    """A vote file, read in batches of bounded size; it can be read several times.

    `path`: the ending of its name gives the kind; CSV and JSONL may be compressed (.gz, .zst).
    `ending`: replaces the ending of the name.
    Raises BadInputError: the file is no vote file: missing, empty, of unknown kind, too large, or with missing or
    repeated columns. Reading it raises the same where it is not UTF-8, or has a damaged line.

    Attributes
    ----------
    form : the detected format of the file.
    unknown : the outcome words that the format does not know, in what was read, with their number.
    """

    def __init__(self, path: Path, options: ReadOptions, *, ending: str | None = None) -> None:
        self.path = path
        self._opened_at = datetime.now(UTC)  # every reading refuses the same votes as cast in the future
        self._source = open_source(path, ending)
        check_columns(path, len(self._source.columns))  # which names the file itself where it cannot be read
        self._source = unfold_grades(self._source)
        source = self._source
        try:
            form = choose_form(source.columns, source.has, kind=source.kind, options=options)
        except ColumnsError as error:
            raise error.of_file(path) from error
        except BadInputError as error:
            raise BadInputError(f"{path}: {error.detail}") from error
        schema = with_verdicts(form.schema, read_verdicts(options.verdict))
        self.form = replace(form, schema=schema, measures=find_measures(form, source.has))
        graded = "model" in self.form.columns
        self._records = RankingsOfGrades(path, self._source, options.zero_rank) if graded else self._source
        if isinstance(self._source, JsonlSource):
            measured = measure_columns() if options.keep_features or options.judged else set[str]()
            said = "weight" in read_columns(options.columns or None)
            self._source.not_late = measured if said else measured | {"weight"}
        self.unknown = Counter[str]()
        self._order, self._notes = options.dates, list[str]()

    @property
    def names_votes(self) -> bool:
        """Whether the file has the ids of votes that this service exported."""
        column = self.form.columns.get("vote_id")
        return column is not None and (isinstance(self._source, JsonlSource) or self._source.has(column))

    def batches(self, *, max_faults: int, progress: Callable[[float], None] | None = None) -> Iterator[Checked]:
        """Yield the records in order, checked; lists at most `max_faults` errors of the whole file.

        `progress`: called with the share of the file that has been read, 0 to 1.
        Raises BadInputError: see the class; also for a file without a record.
        """
        total, read, listed = self._source.count() if progress else 0, 0, 0
        self.unknown.clear()
        for raw in map(refuse_long_values, self._records.batches(self.form.columns)):
            left, order = max_faults - listed, self._day_order(raw)
            checked = check_batch(raw, self.form, first_row=read, max_faults=left, now=self._opened_at, order=order)
            if checked.votes["voted_at"].count():
                self._note_clock(raw)
            read += checked.records
            listed += len(checked.faults)
            if len(self.unknown) < _MOST_WORDS:
                self.unknown.update(checked.unknown)
            yield checked
            if progress:
                progress(min(1.0, read / max(1, total)))
        if not read:
            raise NoVotesError(f"{self.path} has no votes")

    @property
    def unknown_words(self) -> str:
        """The outcome words that the format does not know, as the end of a sentence; empty without any."""
        if not self.unknown:
            return ""
        shown = [(word[:_LONGEST_SHOWN], n) for word, n in self.unknown.most_common(_MOST_SHOWN)]
        times = [f"{word} {n:,} {'time' if n == 1 else 'times'}" for word, n in shown]
        more = f" and {len(self.unknown) - len(shown):,} more" if len(self.unknown) > len(shown) else ""
        return (
            f"; unknown verdicts: {', '.join(times)}{more} (--verdict {shlex.quote(f'{shown[0][0]}=left')}, or =right, "
            "=tie, =both_bad, says what a word means; over HTTP the parameter verdict)"
        )

    @property
    def notes(self) -> list[str]:
        """What was assumed about times and weights, and logs of failed evaluations, known once the file was read."""
        weight = None if self.form.options.keep_features else self.form.weight
        weighted = [f"a row stands for as many votes as {weight} says"] if weight else []
        return [*self._notes, *weighted, *(self._source.notes if isinstance(self._source, JsonlSource) else ())]

    def _day_order(self, raw: RawBatch) -> DayOrder | None:
        """Return the order of day and month, found in the whole column when the first such date comes."""
        if self._order is None and "voted_at" in raw.frame.columns and has_slashed(raw.frame["voted_at"]):
            column: dict[Input, str] = {"voted_at": self.form.columns["voted_at"]}
            try:
                self._order, shown_by = find_order(
                    one.frame["voted_at"] for one in map(refuse_long_values, self._source.batches(column))
                )
            except DatesError as error:
                raise DatesError(f"{self.path}: {error.detail}") from error
            self._notes.append(describe_order(self._order, shown_by))
        return self._order

    def _note_clock(self, raw: RawBatch) -> None:
        """Note the unit of times that are numbers, where the format does not fix it."""
        if self.form.schema.clock != "iso" or raw.frame["voted_at"].dtype != pl.String:
            return
        text = next((text for text in raw.frame["voted_at"] if text), "")
        unit = epoch_unit(text)
        if unit is not None and not any(unit in note for note in self._notes):
            self._notes.append(f"times such as {text} are read as {unit} since 1970")

    def read(
        self, hand_over: Receiver, *, max_faults: int, progress: Callable[[float], None] | None = None
    ) -> FileReport:
        """Read the file to its end: hand each checked batch over, and count what is in it.

        `hand_over`: takes a batch, and returns which of its votes it cannot take.
        Raises BadInputError: see `batches`.
        """
        rows_read = skipped = rejected = refused = 0
        found = list[RecordFault]()
        for batch in self.batches(max_faults=max_faults, progress=progress):
            rows_read, skipped, rejected = rows_read + batch.records, skipped + batch.skipped, rejected + batch.rejected
            not_taken = hand_over(batch) or ()
            refused += len(not_taken)
            found += [*batch.faults, *((row, None, detail) for row, detail in not_taken)]
        found.sort(key=lambda fault: fault[0])
        return FileReport(
            rows_read=rows_read,
            skipped=skipped,
            rejected=rejected + refused,
            refused=refused,
            faults=self._placed(found[:max_faults]),
            notes=self.notes,
            unknown_words=self.unknown_words,
        )

    def places(self, records: Collection[int]) -> dict[int, str]:
        """Return the places in the file (`line 7`) of these records, by their number in the column `row`."""
        return self._records.places(records) if records else {}

    def _placed(self, found: Sequence[RecordFault]) -> list[RecordError]:
        """Return the errors with their places in the file: `line 7, winner`."""
        columns = self.form.columns
        places = self.places([row for row, _, _ in found])
        return [
            RecordError(f"{places[row]}, {columns.get(name, name)}" if name else places[row], detail, row)
            for row, name, detail in found
        ]


def file_sha256(path: Path) -> bytes:
    """Return the SHA-256 digest of the file's bytes."""
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").digest()


def open_source(path: Path, ending: str | None) -> VoteSource:
    """Return a file by its kind, that of `ending` or else of its name. Raises UnreadableFileError or NoVotesError."""
    if path.is_dir():
        raise UnreadableFileError(f"{path} is a folder, not a file")
    if not path.exists():
        raise UnreadableFileError(f"{path} does not exist")
    kind = ending or "".join(path.suffixes[-2:]).lower()
    make = SOURCES.get(kind) or SOURCES.get(path.suffix.lower())
    if make is None:
        raise UnreadableFileError(f"{path} is of unknown kind; known are {', '.join(SOURCES)}")
    try:
        with path.open("rb") as content:
            if not content.read(1):
                raise NoVotesError(f"{path} is empty")
    except OSError as error:
        raise UnreadableFileError(f"{path} cannot be read: {error.strerror}") from error
    return make(path)
