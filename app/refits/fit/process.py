import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from app.errors import StableArenaError
from app.rating.fit.cluster import fitting_on_cluster
from app.refits.fit.child_process import LOWEST_PRIORITY
from app.refits.fit.fit import fit_snapshot
from app.refits.fit.interface import FitInput, FitOutput
from app.refits.fit.work_process import ProcessLostError, WorkProcess

T = TypeVar("T")


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

    Parameters
    ----------
    resources : None for no limits
    priority : see `WorkProcess`
    """

    work_name = "fit"
    lost_error = FitProcessLostError

    def __init__(self, resources: FitResources | None = None, *, priority: int = LOWEST_PRIORITY) -> None:
        self._resources = resources or FitResources()
        super().__init__(memory_bytes=self._resources.memory_bytes, priority=priority)

    def fit(
        self, fit_input: FitInput, *, comparisons: bool = True, cancelled: Callable[[], bool] = lambda: False
    ) -> FitOutput:
        """Fit in the child, as `fit_snapshot` does; see `run`."""
        return self.run(partial(fit_snapshot, fit_input, comparisons=comparisons), cancelled=cancelled)

    def run(self, work: Callable[[], T], *, cancelled: Callable[[], bool] = lambda: False) -> T:
        """Call a function in the child; its errors are raised here.

        Parameters
        ----------
        work : a module's function, bound to its arguments by `partial`: it is pickled for the child
        cancelled : called at once and every second; the child is killed once it returns true

        Raises
        ------
        FitCancelledError, FitTooLargeError
        FitProcessLostError
            The child died or `stop` was called. The next call starts another child.
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


def _on_cluster(scheduler: str | None, work: Callable[[], T]) -> T:
    with fitting_on_cluster(scheduler):
        return work()
