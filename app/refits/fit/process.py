import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from app.errors import ConflictError, StableArenaError, UnavailableError
from app.rating.errors import RatingError
from app.refits.fit.work_process import LOWEST_PRIORITY, ON_DEMAND_PRIORITY, ProcessLostError, WorkProcess
from app.settings import Settings

T = TypeVar("T")

IDLE_SECONDS = 180.0
"""A child waits so long for the next request: as long as a reviewer may look at one case."""


@dataclass(frozen=True)
class FitResources:
    """What a fit may use.

    Attributes
    ----------
    seconds : None for as long as it takes
    memory_bytes : of its process; None for as much as there is
    scheduler : address of a Dask cluster whose workers hold the votes; None to fit on this machine
    """

    seconds: float | None = None
    memory_bytes: int | None = None
    scheduler: str | None = None

    @classmethod
    def chosen(cls, settings: Settings) -> "FitResources":
        """Return what the settings allow."""
        return cls(settings.worker.fit_seconds, settings.worker.fit_memory_bytes, settings.fit.scheduler)


class FitTooLargeError(StableArenaError):
    """The fit took longer, or needed more memory, than it may."""

    code = "fit-too-large"
    title = "The fit exceeded its limits"


class FitCancelledError(StableArenaError):
    """A request to cancel the refit came while it ran."""

    code = "fit-cancelled"
    title = "The fit was cancelled"


class FitProcessLostError(ProcessLostError):
    """The process that fitted was killed, by the service or by the system."""

    code = "fit-lost"
    title = "The fit's process died"


class FitProcess(WorkProcess):
    """One child process that fits.

    `resources`: None for no limits.
    `priority`, `idle_seconds`: see `WorkProcess`.
    """

    work_name = "fit"
    lost_error = FitProcessLostError

    def __init__(
        self,
        resources: FitResources | None = None,
        *,
        priority: int = LOWEST_PRIORITY,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        self._resources = resources or FitResources()
        memory = self._resources.memory_bytes
        super().__init__(memory_bytes=memory, priority=priority, idle_seconds=idle_seconds, prepare=_import_the_fit)

    def run(self, work: Callable[[], T], *, cancelled: Callable[[], bool] = lambda: False) -> T:
        """Call a function in the child; its errors are raised here.

        `work`: a module's function, bound to its arguments by `partial`: it is pickled for the child.
        `cancelled`: called at once and every second; the child is killed once it returns true.
        Raises FitCancelledError or FitTooLargeError.
        Raises FitProcessLostError: the child died or `stop` was called. The next call starts another child.
        """
        started = time.monotonic()

        def watch() -> None:
            if cancelled():
                raise FitCancelledError("the refit was cancelled while it fitted")
            if self._resources.seconds is not None and time.monotonic() - started > self._resources.seconds:
                raise FitTooLargeError(f"the fit took longer than {self._resources.seconds:g} seconds")

        try:
            return self.call(partial(_on_cluster, self._resources.scheduler, work), watch=watch)
        except MemoryError as error:
            raise FitTooLargeError(f"the fit needs more than {self._memory_bytes:,} bytes of memory") from error


def _import_the_fit() -> None:
    """Import before votes take memory: an import that runs out of it fails with any error."""
    import app.refits.fit.fit  # noqa: F401, PLC0415  it imports this module


def _on_cluster(scheduler: str | None, work: Callable[[], T]) -> T:
    from app.rating.cluster import fitting_on_cluster  # noqa: PLC0415  the mathematics is for the child alone

    with fitting_on_cluster(scheduler):
        return work()


class CannotFitError(ConflictError):
    """The votes on record have no ranking under these settings."""

    code = "cannot-fit"
    title = "The votes cannot be fitted"


class OnDemandFits:
    """Fits that a request waits for: one at a time, in a child process that ends some time after its last request.

    Its priority is higher than that of refits: on a busy machine a fit of the lowest priority would never end.

    `busy`: is raised for a request that comes while another one's fit is under way.
    `idle_seconds`: from the end of a request to the end of the child.
    """

    def __init__(
        self,
        resources: FitResources | None,
        *,
        busy: type[UnavailableError],
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        self._busy = busy
        self._process = FitProcess(resources, priority=ON_DEMAND_PRIORITY, idle_seconds=idle_seconds)
        self._one_at_a_time = threading.Lock()

    @contextmanager
    def process(self) -> Iterator[FitProcess]:
        """Lend the child process to the caller for the time of the `with` block; it starts meanwhile.

        Raises UnavailableError: another request's fit is under way; the error is of the class `busy`.
        Raises CannotFitError: the block raised a RatingError: the votes have no ranking.
        Raises FitProcessLostError: `stop` was called.
        """
        if not self._one_at_a_time.acquire(blocking=False):
            raise self._busy("another request's fit is under way; it takes as long as a refit")
        try:
            self._process.start()
            yield self._process
        except RatingError as error:
            raise CannotFitError(str(error)) from error
        finally:
            self._process.rest()
            self._one_at_a_time.release()

    def stop(self) -> None:
        """End a fit under way, from another thread, and start no other."""
        self._process.stop()
