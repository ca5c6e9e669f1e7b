"""Complaints about a file's columns: a file without a header has data in their place, so people too."""

from collections.abc import Collection, Sequence
from pathlib import Path

from app.errors import BadInputError


class ColumnsError(BadInputError):
    """A file's columns are not those of a vote file; its detail names them, which is for whoever holds the file."""

    def __init__(self, before: str, columns: Sequence[str], after: str = "") -> None:
        super().__init__(f"{before}{', '.join(columns) or 'none'}{after}")
        self._before, self._columns, self._after = before, columns, after

    def of_file(self, path: Path) -> "ColumnsError":
        """Return the same complaint with the file's name before it."""
        return ColumnsError(f"{path}: {self._before}", self._columns, self._after)

    def discreet(self, known: Collection[str]) -> str:
        """Return the detail with the known columns only, the others counted: fit to be kept and logged."""
        shown = [column for column in self._columns if column in known]
        others = len(self._columns) - len(shown)
        if others:
            shown.append(f"{others} unknown")
        return f"{self._before}{', '.join(shown) or 'none'}{self._after}"
