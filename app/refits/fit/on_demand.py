import threading
from collections.abc import Iterator
from contextlib import contextmanager

from app.errors import ConflictError, UnavailableError
from app.rating.errors import RatingError
from app.refits.fit.process import FitProcess, FitProcessLostError, FitResources


class CannotFitError(ConflictError):
    """The votes on record have no ranking under these settings."""

    code = "cannot-fit"
    title = "The votes cannot be fitted"


class OnDemandFits:
    """Fits that a request waits for: one at a time, each in a child process that ends with its request.

    Parameters
    ----------
    busy : is raised for a request that comes while another one's fit is under way
    """

    def __init__(self, resources: FitResources | None, *, busy: type[UnavailableError]) -> None:
        self._resources = resources
        self._busy = busy
        self._one_at_a_time = threading.Lock()
        self._lock = threading.Lock()  # of what follows
        self._process: FitProcess | None = None
        self._stopped = False

    @contextmanager
    def process(self) -> Iterator[FitProcess]:
        """Lend a child process to the caller for the time of the `with` block.

        Raises
        ------
        UnavailableError
            Another request's fit is under way; the error is of the class `busy`.
        CannotFitError
            The block raised a RatingError: the votes have no ranking.
        FitProcessLostError
            `stop` was called.
        """
        if not self._one_at_a_time.acquire(blocking=False):
            raise self._busy("another request's fit is under way; it takes as long as a refit")
        try:
            process = self._start()
            try:
                yield process
            except RatingError as error:
                raise CannotFitError(str(error)) from error
            finally:
                process.stop()
        finally:
            self._one_at_a_time.release()

    def stop(self) -> None:
        """End a fit under way, from another thread, and start no other."""
        with self._lock:
            self._stopped = True
            process = self._process
        if process is not None:
            process.stop()

    def _start(self) -> FitProcess:
        with self._lock:
            if self._stopped:
                raise FitProcessLostError("the service is shutting down")
            self._process = FitProcess(self._resources)
            return self._process
