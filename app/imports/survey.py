"""The first reading of an import: counts the records and finds the errors; stores nothing."""

from collections.abc import Callable
from dataclasses import dataclass

from app.database.engine import Database
from app.errors import BadInputError, FieldError
from app.imports.formats import VoteReader
from app.imports.names import check_models
from app.imports.recognition import Recogniser
from app.imports.service import MAX_FAULTS_STORED


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
    notes : what was assumed about the times in the file.
    """

    rows: int
    skipped: int
    unreadable: int
    unknown: int
    faults: list[tuple[int, FieldError]]
    notes: list[str]

    @property
    def rejected(self) -> int:
        """Records that are no valid votes."""
        return self.unreadable + self.unknown


def survey_file(
    database: Database,
    reader: VoteReader,
    *,
    progress: Callable[[float], None] | None = None,
    stopped: Callable[[], bool] = lambda: False,
    recogniser: Recogniser | None = None,
) -> Survey | None:
    """Read a whole file and check every record; return None where it was stopped.

    `recogniser` compares every vote with those on record.

    Raises
    ------
    BadInputError
        It is no vote file, or it is damaged.
    """
    total = reader.count() if progress else 0
    rows = skipped = unreadable = 0
    found, unknown = [], []
    for batch in reader.batches(max_faults=MAX_FAULTS_STORED):
        if stopped():
            return None
        rows += batch.records
        skipped += batch.skipped
        unreadable += batch.rejected
        found += batch.faults
        with database.read() as conn:
            unknown += check_models(conn, batch.votes)
            if recogniser is not None:
                recogniser.add(conn, batch.votes)
        if progress:
            progress(min(1.0, rows / max(1, total)))
    faults = list(zip((row for row, _, _ in found), reader.placed(found), strict=True))
    first_unknown = unknown[:MAX_FAULTS_STORED]
    places = reader.places([row for row, _ in first_unknown])
    faults += [(row, FieldError(places[row], detail)) for row, detail in first_unknown]
    faults.sort(key=lambda fault: fault[0])
    return Survey(rows, skipped, unreadable, len(unknown), faults[:MAX_FAULTS_STORED], list(reader.notes))


def refuse_faulty(survey: Survey, called: str, *, skip_invalid: bool) -> None:
    """Refuse a file with invalid records, or without a valid one.

    Raises
    ------
    BadInputError
    """
    faults = tuple(fault for _, fault in survey.faults)
    if survey.rejected and not skip_invalid:
        message = f"{called}: {survey.rejected:,} of {survey.rows:,} records are not valid votes"
    elif survey.rejected + survey.skipped >= survey.rows:
        message = f"{called}: no record is a valid vote"
    else:
        return
    raise BadInputError(message, faults, n_errors=survey.rejected)
