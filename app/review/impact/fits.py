"""Refits that only a question asks for: in a process of their own, one at a time."""

import threading
from collections.abc import Callable
from typing import TypeVar

from app.errors import UnavailableError
from app.rating.errors import RatingError
from app.refits.fit.process import FitLimits, FitProcess, FitProcessLostError
from app.refits.previews.service import CannotFitError

Answer = TypeVar("Answer")


class ImpactBusyError(UnavailableError):
    """Another question that needs a refit is being answered."""

    code = "impact-busy"
    title = "Another impact is being computed"


class ReviewFits:
    """Answers questions that need a fit, one at a time, each in a child process that ends with its answer."""

    def __init__(self, limits: FitLimits | None = None) -> None:
        self._limits = limits
        self._turn = threading.Lock()
        self._lock = threading.Lock()  # of what follows
        self._process: FitProcess | None = None
        self._stopped = False

    def run(self, prepare: Callable[[], Callable[[], Answer]]) -> Answer:
        """Call what `prepare` returns in a child; both only when it is this one's turn.

        Parameters
        ----------
        prepare : called here, at the start of the turn: reads what is needed, and returns what crosses the process
            boundary: a function of a module, bound to its arguments by `partial`

        Raises
        ------
        ImpactBusyError
            It is somebody else's turn.
        CannotFitError
            The votes in question have no ranking.
        FitTooLargeError
        FitProcessLostError
            The child died or `stop` was called.
        """
        if not self._turn.acquire(blocking=False):
            raise ImpactBusyError("another impact is being computed, which takes as long as a refit")
        try:
            return self._call(prepare())
        except RatingError as error:
            raise CannotFitError(str(error)) from error
        finally:
            self._turn.release()

    def stop(self) -> None:
        """End a child under way, and start no other."""
        with self._lock:
            self._stopped = True
            process = self._process
        if process is not None:
            process.stop()

    def _call(self, question: Callable[[], Answer]) -> Answer:
        with self._lock:
            if self._stopped:
                raise FitProcessLostError("the service is shutting down")
            process = self._process = FitProcess(self._limits)
        try:
            return process.run(question)
        finally:
            process.stop()
