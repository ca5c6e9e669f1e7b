"""The parts of a snapshot beside its main leaderboard: one that fails is left out, and never ends a refit."""

import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import structlog

from app.errors import StableArenaError, UnavailableError
from app.rating.errors import RatingError, RatingNotice
from app.refits.fit.process import FitCancelledError

T = TypeVar("T")

log = structlog.get_logger()

LEFT_OUT = "part-left-out"
"""The code of the notice; `doctor` shows those of the newest snapshot."""

_ENDS_ALL = (UnavailableError, FitCancelledError)
"""What says nothing of the part: the database, a request to stop."""


@dataclass(frozen=True)
class PartNotice(RatingNotice):
    """That a part of a snapshot is left out, because of an error that votes do not explain."""

    part: str = ""
    trace: str = ""

    def named(self, names: Sequence[Any]) -> dict[str, Any]:
        """Return the notice as readers get it: the trace is for the log."""
        return {**super().named(names), "part": self.part}


class Parts:
    """Computes parts, and gathers the notices about those that are left out.

    `interruption`: a further error that ends the whole.
    """

    def __init__(self, interruption: type[Exception] = FitCancelledError) -> None:
        self._ends_all = (*_ENDS_ALL, interruption)
        self.notices: list[RatingNotice] = []

    def compute(self, part: str, work: Callable[[], T], *, omitted: str | None = None) -> T | None:
        """Return what the work does; None, with a notice, where it fails.

        `part`: its name, in words.
        `omitted`: code of the notice where the votes have no such leaderboard: a RatingError.
        Raises UnavailableError, FitCancelledError, the interruption.
        """
        try:
            return work()
        except self._ends_all:
            raise
        except Exception as error:  # noqa: BLE001  a part must not end the whole, whatever is wrong with it
            if omitted is not None and isinstance(error, RatingError):
                self.notices.append(RatingNotice(omitted, f"there is no {part}: {error}"))
            else:
                known = isinstance(error, RatingError | StableArenaError)
                reason = str(error) if known else f"unexpected {type(error).__name__}"
                self.notices.append(PartNotice(LEFT_OUT, f"{part}: {reason}", part=part, trace=traceback.format_exc()))
            return None


def log_left_out(notices: Iterable[RatingNotice]) -> None:
    """Log the parts that are left out, with the traceback: where the service runs, not in the child that fits."""
    for notice in notices:
        if isinstance(notice, PartNotice):
            log.error("part_left_out", part=notice.part, detail=notice.detail, exception=notice.trace)
