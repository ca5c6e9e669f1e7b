"""The first reading of an import: counts the records and finds the errors; stores nothing."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import polars as pl

from app.database.engine import Database
from app.imports.formats.checks import Checked
from app.imports.formats.errors import NoVotesError
from app.imports.formats.reading import VoteReader
from app.imports.formats.report import FileReport
from app.imports.names import RecordFault, check_models, count_models
from app.imports.recognition import Recogniser, refuse_recorded
from app.imports.service import MAX_FAULTS_STORED, ImportOptions
from app.models.service import read_look_alikes
from app.naming.look_alikes import merge_commands

_MOST_NAMED = 10


@dataclass(frozen=True, kw_only=True)
class Survey(FileReport):
    """The report on a file that is to be recorded; its `notes` name models that look the same too.

    Votes on models that could not be stored now are refused.

    Attributes
    ----------
    recogniser : has compared every vote with those on record; None for a dry run.
    """

    recogniser: Recogniser | None

    @property
    def counts(self) -> dict[str, int]:
        """The counts of an import that has only been surveyed; unknown models may be known when it comes to them."""
        return {"rows": self.rows_read, "rejected": self.rejected - self.refused, "skipped": self.skipped}

    @property
    def fault_rows(self) -> list[dict[str, Any]]:
        """The errors as they are stored."""
        return [fault_row(one.record, one.pointer, one.detail) for one in self.faults]

    def left_out(self, database: Database, called: str, options: ImportOptions) -> pl.DataFrame:
        """Return the votes that are not recorded, because they are on record; see `Recognised.left_out`.

        Raises BadInputError: the file has invalid records or no valid one, or most of its votes are on record, and the
        options do not allow that.
        """
        assert self.recogniser is not None  # noqa: S101  it was surveyed to be recorded
        if not options.skip_invalid:
            self.require_valid(called)
        if self.rejected + self.skipped >= self.rows_read:
            said = f"{called}: no record is a valid vote{self.unknown_words}"
            raise NoVotesError(said, tuple(self.faults), n_errors=self.rejected)
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
    recogniser, models = None, Counter[str]()
    if not options.dry_run:
        recogniser = Recogniser(database, content=not options.allow_repeats, exact=options.new_rows_only)

    def compare(batch: Checked) -> list[RecordFault]:
        models.update(count_models(batch.votes))
        with database.read() as conn:
            votes, unknown = check_models(conn, batch.votes)
            if recogniser is not None:
                recogniser.add(conn, votes)
        return unknown

    report = reader.read(compare, max_faults=MAX_FAULTS_STORED, progress=progress)
    report.notes.extend(_look_alike_notes(database, models))
    return Survey(**vars(report), recogniser=recogniser)


def _look_alike_notes(database: Database, models: Counter[str]) -> list[str]:
    """Return a note on the models that look the same, in the file and on record."""
    with database.read() as conn:
        found = read_look_alikes(conn, models)[:_MOST_NAMED]
    names = "; ".join(map(str, found))
    return [f"models look the same: {names}. If they are, run {merge_commands(found)}"] if found else []


def fault_row(record: int, place: str, detail: str, kind: str = "invalid") -> dict[str, Any]:
    """Return an error of a record as it is stored."""
    return {"record": record, "place": place, "kind": kind, "detail": detail}
