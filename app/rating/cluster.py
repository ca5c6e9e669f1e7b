"""The machines of a Dask cluster as the executors of fits."""

from collections.abc import Iterator
from concurrent.futures import Executor, Future, wait
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from app import __version__
from app.rating.errors import ClusterError
from app.rating.executors import Build, Executors, fitting_on

if TYPE_CHECKING:
    from distributed import Client

ANSWER_SECONDS = 10.0  # in which a scheduler answers, and in which a cluster that has lost all workers has one again
LOOK_SECONDS = 10.0  # between two looks, during a long pass, whether workers are left to do it


class ClusterExecutors(Executors):
    """The threads of a cluster's workers, each with a partition. A worker that has died is replaced by another.

    Raises
    ------
    ClusterError
        The cluster has no workers, or they have another version of this package.
    """

    def __init__(self, client: "Client", *, worth: int | None = None) -> None:
        from distributed import KilledWorker  # noqa: PLC0415  an extra
        from distributed.client import ClosedClientError  # noqa: PLC0415  of the same extra

        self._client = client
        self._addresses: dict[Executor, str] = {}
        self._executor = cache(self._lead_to)
        self.lost = (*Executors.lost, KilledWorker, ClosedClientError, OSError)  # the last, of connections
        super().__init__(self._look(), worth=worth)
        self._check_versions()

    def keep_or_replace(self, part: int, executor: Executor, *, failed: bool) -> Executor:  # noqa: ARG002  the cluster knows
        """Return the same executor while its worker lives, and another one otherwise."""
        self._live = self._look()
        return executor if executor in self._live else self.choose(part)

    def send(self, executor: Executor, build: Build) -> Any:
        """Send the votes to a worker, not by way of the scheduler."""
        return self._client.scatter(build, workers=[self._addresses[executor]], direct=True, hash=False)

    def wait(self, future: "Future[Any]") -> None:
        """Wait for an answer as long as there are workers: without any a task would wait for ever."""
        while not wait([future], LOOK_SECONDS).done:
            self._look()

    def _look(self) -> list[Executor]:
        """Return an executor for each thread of the workers."""
        try:
            self._client.wait_for_workers(1, timeout=ANSWER_SECONDS)
            threads: dict[str, int] = self._client.nthreads()
        except Exception as error:  # of many types: timeouts, sockets, closed clients, the scheduler's own
            raise ClusterError(f"the Dask cluster has no workers: {str(error) or type(error).__name__}") from error
        return [self._executor(address) for address, number in threads.items() for _ in range(number)]

    def _lead_to(self, address: str) -> Executor:
        executor: Executor = self._client.get_executor(workers=[address], allow_other_workers=True, pure=False)
        self._addresses[executor] = address
        return executor

    def _check_versions(self) -> None:
        """Compare versions: methods are called by their names, so another version may do another thing."""
        try:
            theirs: dict[str, str] = self._client.run(_version)
        except Exception as error:  # whatever a worker raised; mostly ImportError
            raise ClusterError(f"the Dask workers cannot import stable-arena: {error}") from error
        for address, other in theirs.items():
            if other != __version__:
                raise ClusterError(f"the Dask worker {address} has stable-arena {other}, and this is {__version__}")


@contextmanager
def fitting_on_cluster(scheduler: str | None, *, worth: int | None = None) -> Iterator[None]:
    """Let the fits of am-ELO in this block hold their votes on a cluster.

    Parameters
    ----------
    scheduler : its address, such as tcp://10.0.0.1:8786; with None the fits stay here
    worth : as for `Executors`

    Raises
    ------
    ClusterError
        The package `distributed` is missing, the scheduler does not answer, or its workers cannot fit.
    """
    if scheduler is None:
        yield
        return
    try:
        from distributed import Client  # noqa: PLC0415  an extra, and slow to import
    except ImportError as error:
        raise ClusterError("a Dask scheduler needs the package distributed: pip install stable-arena[dask]") from error
    try:
        client = Client(scheduler, timeout=ANSWER_SECONDS, set_as_default=False, name="stable-arena")
    except (OSError, ValueError, RuntimeError) as error:
        raise ClusterError(f"the Dask scheduler {scheduler} does not answer: {error}") from error
    with client, fitting_on(ClusterExecutors(client, worth=worth)):
        yield


def _version() -> str:
    return __version__
