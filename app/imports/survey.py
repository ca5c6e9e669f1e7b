"""The first reading of an import: counts the records and finds the errors; stores nothing."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import polars as pl

from app.database.engine import Database
from app.errors import BadInputError, FieldError
from app.imports.formats.errors import NoVotesError
from app.imports.formats.reading import VoteReader
from app.imports.names import check_models, count_models
from app.imports.recognition import Recogniser, refuse_recorded
from app.imports.service import MAX_FAULTS_STORED, ImportOptions
from app.models.service import read_look_alikes
from app.naming.look_alikes import merge_commands

_MOST_NAMED = 10


@dataclass(frozen=True)
class Survey:
    """The contents of a file.

    Attributes
    ----------
    rows : number of records.
    skipped : records without a vote.
    unreadable : invalid records.
    unknown : records on models that could not be stored now.
    faults : record number and error of the first 100,000 invalid or unknown records.
    notes : what was assumed about the times in the file, and models that look the same.
    unknown_words : the outcome words that the format does not know, as the end of a sentence; empty without any.
    recogniser : has compared every vote with those on record; None for a dry run.
    """

    rows: int
    skipped: int
    unreadable: int
    unknown: int
    faults: list[tuple[int, FieldError]]
    notes: list[str]
    unknown_words: str
    recogniser: Recogniser | None

    @property
    def rejected(self) -> int:
        """Records that are no valid votes."""
        return self.unreadable + self.unknown

    @property
    def counts(self) -> dict[str, int]:
        """The counts of an import that has only been surveyed; unknown models may be known when it comes to them."""
        return {"rows": self.rows, "rejected": self.unreadable, "skipped": self.skipped}

    @property
    def fault_rows(self) -> list[dict[str, Any]]:
        """The errors as they are stored."""
        return [fault_row(record, error.pointer, error.detail) for record, error in self.faults]

    def left_out(self, database: Database, called: str, options: ImportOptions) -> pl.DataFrame:
        """Return the votes that are not recorded, because they are on record; see `Recognised.left_out`.

        Raises BadInputError: the file has invalid records or no valid one, or most of its votes are on record, and the
        options do not allow that.
        """
        assert self.recogniser is not None  # noqa: S101  it was surveyed to be recorded
        _refuse_faulty(self, called, skip_invalid=options.skip_invalid)
        found = self.recogniser.finish()
        if not options.new_rows_only:
            refuse_recorded(database, called, found)
        return found.left_out(new_rows_only=options.new_rows_only)


def survey_file(
    database: Database,
    reader: VoteReader,
    options: ImportOptions,
    *,
    progress: Callable[[float], None] | None = None,
) -> Survey:
    """Read a whole file and check every record.

    Raises BadInputError: it is no vote file, or it is damaged.
    """
    recogniser = (
        None
        if options.dry_run
        else Recogniser(database, content=not options.allow_repeats, exact=options.new_rows_only)
    )
    rows = skipped = unreadable = 0
    found, unknown, models = [], [], Counter[str]()
    for batch in reader.batches(max_faults=MAX_FAULTS_STORED, progress=progress):
        rows += batch.records
        skipped += batch.skipped
        unreadable += batch.rejected
        found += batch.faults
        models.update(count_models(batch.votes))
        with database.read() as conn:
            votes, not_storable = check_models(conn, batch.votes)
            unknown += not_storable
            if recogniser is not None:
                recogniser.add(conn, votes)
    faults = list(zip((row for row, _, _ in found), reader.placed(found), strict=True))
    first_unknown = unknown[:MAX_FAULTS_STORED]
    places = reader.places([row for row, _ in first_unknown])
    faults += [(row, FieldError(places[row], detail)) for row, detail in first_unknown]
    faults.sort(key=lambda fault: fault[0])
    return Survey(
        rows=rows,
        skipped=skipped,
        unreadable=unreadable,
        unknown=len(unknown),
        faults=faults[:MAX_FAULTS_STORED],
        notes=[*reader.notes, *_look_alike_notes(database, models)],
        unknown_words=reader.unknown_words,
        recogniser=recogniser,
    )


def _look_alike_notes(database: Database, models: Counter[str]) -> list[str]:
    """Return a note on the models that look the same, in the file and on record."""
    with database.read() as conn:
        found = read_look_alikes(conn, models)[:_MOST_NAMED]
    names = "; ".join(map(str, found))
    return [f"models look the same: {names}. If they are, run {merge_commands(found)}"] if found else []


def _refuse_faulty(survey: Survey, called: str, *, skip_invalid: bool) -> None:
    """Refuse a file with invalid records, or without a valid one. Raises BadInputError."""
    faults = tuple(fault for _, fault in survey.faults)
    if survey.rejected and not skip_invalid:
        message = f"{called}: {survey.rejected:,} of {survey.rows:,} records are not valid votes{survey.unknown_words}"
        raise BadInputError(message, faults, n_errors=survey.rejected)
    if survey.rejected + survey.skipped >= survey.rows:
        raise NoVotesError(
            f"{called}: no record is a valid vote{survey.unknown_words}", faults, n_errors=survey.rejected
        )


def fault_row(record: int, place: str, detail: str, kind: str = "invalid") -> dict[str, Any]:
    """Return an error of a record as it is stored."""
    return {"record": record, "place": place, "kind": kind, "detail": detail}
