import hashlib
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import polars as pl

from app.errors import BadInputError
from app.imports.formats.checks import Checked, RecordFault, check_batch, unread_numbers
from app.imports.formats.csv import CsvSource
from app.imports.formats.errors import NoVotesError
from app.imports.formats.grades import RankingsOfGrades
from app.imports.formats.hints import find_hint, guess_verdicts
from app.imports.formats.jsonl import JsonlSource
from app.imports.formats.measures import find_measures, measure_columns
from app.imports.formats.opening import Opened
from app.imports.formats.options import DayOrder, ReadOptions
from app.imports.formats.report import FileReport, RecordError
from app.imports.formats.rows import Rows
from app.imports.formats.schemas import (
    ColumnsError,
    Input,
    NoAnnotatorError,
    Scale,
    UnnamedError,
    choose_form,
    read_columns,
)
from app.imports.formats.sources import RawBatch, check_columns, refuse_long_values
from app.imports.formats.timestamps import (
    DatesError,
    describe_order,
    epoch_unit,
    find_order,
    has_slashed,
)
from app.imports.formats.verdicts import VerdictsError, find_scale, rounded_note
from app.imports.formats.where import read_conditions
from app.rating.errors import counted

Receiver = Callable[[Checked], Sequence[tuple[int, str]] | None]
"""Takes a checked batch, and returns the numbers of records whose votes it cannot take, each with the reason."""

_MOST_WORDS, _MOST_SHOWN, _LONGEST_SHOWN = 1_000, 10, 80


@dataclass
class Counted:
    """What was counted beside votes and errors, for the notes."""

    alone: int = 0
    rounded: Counter[str] = field(default_factory=Counter)
    untimed: int = 0
    a_time: tuple[str, int] | None = None

    def add(self, checked: Checked) -> None:
        """Count what was noticed in a batch."""
        self.alone += checked.alone
        self.rounded.update(checked.rounded)
        self.untimed += checked.untimed
        self.a_time = self.a_time or checked.a_time

    def notes(self, places: Callable[[Collection[int]], Mapping[int, str]], *, soft: bool) -> list[str]:
        """Return what is said of it; `soft` says whether graded verdicts could be counted as they are."""
        found = list[str]()
        if self.alone:
            found.append(f"{counted(self.alone, 'pair')} of a model with itself skipped")
        if self.rounded:
            found.append(rounded_note(self.rounded.total(), next(iter(self.rounded)), soft=soft))
        if self.a_time is not None:
            text, row = self.a_time
            times, place = counted(self.untimed, "time"), places([row])[row]
            found.append(f"{times} left out, which nothing here uses: {text!r} ({place}) is no time until now")
        return found


class VoteReader:
    """A vote file, read in batches of bounded size; it can be read several times.

    `path`: the ending of its name gives the kind; CSV and JSONL may be compressed (.gz, .zst).
    `ending`: replaces the ending of the name.
    `hints`: whether an error about columns says which ones to name.
    Raises BadInputError: the file is no vote file: missing, empty, of unknown kind, too large, or with missing or
    repeated columns. Reading it raises the same where it is not UTF-8, or has a damaged line.

    Attributes
    ----------
    form : the detected format of the file.
    unknown : the outcome words that the format does not know, in what was read, with their number.
    """

    def __init__(self, path: Path, options: ReadOptions, *, ending: str | None = None, hints: bool = True) -> None:
        self.path, self._hints = path, hints
        self._opened_at = datetime.now(UTC)  # every reading refuses the same votes as cast in the future
        self._opened = Opened(path, ending)
        self._source = self._opened.source
        with self._named():
            check_columns(path, len(self._source.columns))  # which names the file itself where it cannot be read
        source, rows = self._source, Rows(self._source)
        try:
            form = choose_form(source.columns, rows.has, kind=source.kind, options=options)
            rows.conditions = read_conditions(options.where)
        except ColumnsError as error:
            raise self._with_hint(error, options, ending).of_file(path) from error
        except BadInputError as error:
            raise BadInputError(f"{path}: {error.detail}") from error
        if missing := next((one.column for one in rows.conditions if not rows.has(one.column)), None):
            raise ColumnsError(
                f"{path}: there is no column {missing!r}, which --where names (found: ", source.columns, ")"
            )
        self.form, rows.cells = replace(form, measures=find_measures(form, source.has)), form.schema.rows
        self._rows = rows
        self._grades: RankingsOfGrades | None = None
        if form.schema.graded:
            by_record, most = form.schema.by_record, form.most_ranked
            self._grades = RankingsOfGrades(path, rows, zero_rank=options.zero_rank, by_record=by_record, most=most)
        self._records: Rows | RankingsOfGrades = self._grades or rows
        if isinstance(self._source, JsonlSource):
            measured = measure_columns() if options.keep_features or options.judged else set[str]()
            said = "weight" in read_columns(options.columns or None)
            self._source.not_late = measured if said else measured | {"weight"}
        self.unknown = Counter[str]()
        self._order, self._notes = options.dates, list[str]()
        self._scale: Scale | None = None
        self._no_dates = False
        self._counted = Counted()

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
        self._counted = Counted()
        for raw in self._batches():
            left, order = max_faults - listed, self._day_order(raw)
            self._find_scale(raw)
            checked = check_batch(
                raw, self.form, first_row=read, max_faults=left, now=self._opened_at, order=order, scale=self._scale
            )
            self._counted.add(checked)
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
            why = f": no row is left of {self._rows.left_out:,} by --where" if self._rows.left_out else ""
            raise NoVotesError(f"{self.path} has no votes{why}")

    @property
    def unknown_words(self) -> str:
        """The outcome words that the format does not know, as the end of a sentence; empty without any."""
        if not self.unknown:
            return ""
        shown = [(word[:_LONGEST_SHOWN], n) for word, n in self.unknown.most_common(_MOST_SHOWN)]
        times = [f"{word} {n:,} {'time' if n == 1 else 'times'}" for word, n in shown]
        more = f" and {len(self.unknown) - len(shown):,} more" if len(self.unknown) > len(shown) else ""
        said = f"; unknown verdicts: {', '.join(times)}{more}"
        if guess := "" if more else guess_verdicts(word for word, _ in shown):
            return f"{said}: perhaps {guess} (over HTTP the parameter verdict)"
        return (
            f"{said} (--verdict {shlex.quote(f'{shown[0][0]}=left')}, or =right, =tie, =both_bad, says what a word "
            "means; over HTTP the parameter verdict)"
        )

    @property
    def notes(self) -> list[str]:
        """What was assumed about times and weights, and logs of failed evaluations, known once the file was read."""
        weight = None if self.form.options.keep_features else self.form.weight
        weighted = [f"a row stands for as many votes as {weight} says"] if weight else []
        left_out = self._rows.left_out
        chosen = [f"{left_out:,} rows left out by --where"] if left_out else []
        ranks = self._grades.notes if self._grades else []
        logs = self._source.notes if isinstance(self._source, JsonlSource | CsvSource) else []
        soft = not self.form.options.keep_features
        counted = self._counted.notes(self.places, soft=soft)
        return [*self._notes, *weighted, *chosen, *ranks, *counted, *logs]

    def _batches(self) -> Iterator[RawBatch]:
        with self._named():
            yield from map(refuse_long_values, self._records.batches(self.form.columns))

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Give the file its own name in the errors of the block, where a copy of it is read."""
        try:
            yield
        except BadInputError as error:
            error.detail = self._opened.say(error.detail)
            raise

    def _with_hint(self, error: ColumnsError, options: ReadOptions, ending: str | None) -> ColumnsError:
        """Return the error with the options that read the file, which are tried."""
        if isinstance(error, UnnamedError):
            return error

        def reads(columns: str, pool: bool) -> str | None:
            try:
                tried = replace(options, columns=columns, pool_annotators=pool)
                reader = VoteReader(self.path, tried, ending=ending, hints=False)
                first = next(reader.batches(max_faults=0))
            except VerdictsError:  # which names what to add
                return ""
            except BadInputError:
                return None
            if first.rejected == reader.unknown.total() <= _MOST_SHOWN * first.rejected:
                return guess_verdicts(reader.unknown) or None if first.rejected else "" if first.votes.height else None
            return None

        if not self._hints:
            return error
        pooled = options.pool_annotators
        hint = find_hint(
            self._source,
            reads,
            pooled=pooled,
            named=options.columns,
            only_annotator=isinstance(error, NoAnnotatorError),
        )
        return error.with_hint(hint) if hint else error

    def _find_scale(self, raw: RawBatch) -> None:
        """Find what verdicts that are numbers mean, in the whole column, when the first such verdict comes."""
        if self._scale is not None or not len(unread_numbers(raw, self.form)):
            return
        batches = map(refuse_long_values, self._rows.scan(self.form.columns))
        try:
            self._scale, note = find_scale(unread_numbers(one, self.form) for one in batches)
        except VerdictsError as error:
            raise VerdictsError(f"{self.path}: {error.detail}") from error
        self._notes += [note] if note else []

    def _day_order(self, raw: RawBatch) -> DayOrder | None:
        """Return the order of day and month, found in the whole column when the first such date comes."""
        if (
            self._order is None
            and not self._no_dates
            and "voted_at" in raw.frame.columns
            and has_slashed(raw.frame["voted_at"])
        ):
            column: dict[Input, str] = {"voted_at": self.form.columns["voted_at"]}
            try:
                self._order, shown_by = find_order(
                    one.frame["voted_at"] for one in map(refuse_long_values, self._rows.scan(column))
                )
            except DatesError as error:
                if self.form.options.keep_features:
                    raise DatesError(f"{self.path}: {error.detail}") from error
                self._no_dates = True
                self._notes.append(f"the times are left out, which nothing here uses: {error.detail}")
                return None
            self._notes.append(describe_order(self._order, shown_by))
        return self._order

    def _note_clock(self, raw: RawBatch) -> None:
        """Note the unit of times that are numbers, where the format does not fix it."""
        if self.form.schema.clock != "iso" or raw.frame["voted_at"].dtype != pl.String:
            return
        text = next((text for text in raw.frame["voted_at"] if text), "")
        unit = epoch_unit(text)
        if unit is not None and not any(unit in note for note in self._notes):
            self._notes.append(f"times such as {text} are read as {unit}")

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
