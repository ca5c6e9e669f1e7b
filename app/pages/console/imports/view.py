"""An import in words."""

from dataclasses import dataclass
from typing import Literal

from app.imports.schemas import Import, ImportCounts, State

Tone = Literal["", "accent", "good", "warn", "bad"]

_STATES: dict[State, tuple[str, Tone]] = {
    "queued": ("waiting", "accent"),
    "running": ("loading", "accent"),
    "done": ("done", "good"),
    "failed": ("failed", "bad"),
}
_COUNTS = {
    "rows": "records",
    "created": "votes recorded",
    "replaced": "replaced an earlier vote",
    "duplicates": "stored already",
    "conflicts": "contradict a stored vote",
    "rejected": "not valid",
    "skipped": "without a vote",
}


@dataclass(frozen=True)
class ShownImport:
    """An import and what its page says of it.

    Attributes
    ----------
    state, tone : its state, and how it looks
    share : of the records processed; None before they are counted
    counts : how many records of each kind, where there are any
    """

    record: Import
    state: str
    tone: Tone
    share: float | None
    counts: list[tuple[str, int]]

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen."""
        return self.record.finished_at is not None


def show_import(record: Import) -> ShownImport:
    """Return the import as its page shows it."""
    state, tone = _STATES[record.state]
    tried = bool(record.options.get("dry_run"))
    if tried and record.state == "done":
        state = "checked, not stored"
    share = record.rows_done / record.rows_total if record.rows_total else None
    return ShownImport(record, state, tone, share, _counts(record.counts))


def _counts(counts: ImportCounts) -> list[tuple[str, int]]:
    found = counts.model_dump()
    return [(words, found[name]) for name, words in _COUNTS.items() if found[name]]
