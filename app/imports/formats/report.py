"""What was counted in a file that was read to its end, whatever became of its votes."""

from dataclasses import dataclass, field
from pathlib import Path

from app.errors import BadInputError, FieldError


@dataclass(frozen=True)
class RecordError(FieldError):
    """What is wrong with a record: `pointer` is its place (`line 7, winner`), `record` its number from 0."""

    record: int


@dataclass(frozen=True, kw_only=True)
class FileReport:
    """The counts and the errors of a file.

    Attributes
    ----------
    rows_read : records in the file, including skipped and invalid ones, without blank lines.
    skipped : records without a vote.
    rejected : invalid records.
    refused : of these, valid votes that their receiver cannot take.
    faults : the first invalid records, in file order, with one place and reason each.
    notes : what was assumed about the times in the file, and what else its reader should know.
    unknown_words : the outcome words that the format does not know, as the end of a sentence; empty without any.
    """

    rows_read: int
    skipped: int
    rejected: int
    refused: int = 0
    faults: list[RecordError] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    unknown_words: str = ""

    def require_valid(self, called: str | Path) -> None:
        """Refuse a file with invalid records. Raises BadInputError."""
        if self.rejected:
            raise BadInputError(
                f"{called}: {self.rejected:,} of {self.rows_read:,} records are not valid votes{self.unknown_words}",
                tuple(self.faults),
                n_errors=self.rejected,
            )
