import threading
from collections.abc import Iterator
from contextlib import contextmanager

from app.errors import ConflictError, UnavailableError
from app.rating.errors import RatingError
from app.refits.fit.child_process import ON_DEMAND_PRIORITY
from app.refits.fit.process import FitProcess, FitProcessLostError, FitResources

IDLE_SECONDS = 180.0
"""A child waits so long for the next request: as long as a reviewer may look at one case."""


class CannotFitError(ConflictError):
    """The votes on record have no ranking under these settings."""

    code = "cannot-fit"
    title = "The votes cannot be fitted"


class OnDemandFits:
    """Fits that a request waits for: one at a time, in a child process that ends some time after its last request.

    Its priority is higher than that of refits: on a busy machine a fit of the lowest priority would never end.

    Parameters
    ----------
    busy : is raised for a request that comes while another one's fit is under way
    idle_seconds : from the end of a request to the end of the child
    """

    def __init__(
        self,
        resources: FitResources | None,
        *,
        busy: type[UnavailableError],
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        self._resources = resources
        self._busy = busy
        self._idle_seconds = idle_seconds
        self._one_at_a_time = threading.Lock()
        self._lock = threading.Lock()  # of what follows
        self._process: FitProcess | None = None
        self._idle: threading.Timer | None = None
        self._stopped = False

    @contextmanager
    def process(self) -> Iterator[FitProcess]:
        """Lend a child process to the caller for the time of the `with` block; a new one starts meanwhile.

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
            process = self._take()
            try:
                process.start()
                yield process
            except RatingError as error:
                raise CannotFitError(str(error)) from error
            finally:
                self._give_back()
        finally:
            self._one_at_a_time.release()

    def stop(self) -> None:
        """End a fit under way, from another thread, and start no other."""
        with self._lock:
            self._stopped = True
            process = self._no_longer_idle()
        if process is not None:
            process.stop()

    def _take(self) -> FitProcess:
        with self._lock:
            if self._stopped:
                raise FitProcessLostError("the service is shutting down")
            self._process = self._no_longer_idle() or FitProcess(self._resources, priority=ON_DEMAND_PRIORITY)
            return self._process

    def _give_back(self) -> None:
        with self._lock:
            if not self._stopped:
                self._idle = threading.Timer(self._idle_seconds, self._end_idle)
                self._idle.daemon = True
                self._idle.start()

    def _end_idle(self) -> None:
        with self._lock:
            if self._idle is not threading.current_thread():
                return  # a request took the process at the last moment
            process, self._process, self._idle = self._process, None, None
        if process is not None:
            process.stop()

    def _no_longer_idle(self) -> FitProcess | None:
        """Return the process, if there is one, without the timer that would end it."""
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        return self._process
