"""Partitions in other processes or on other machines, behind `concurrent.futures.Executor`s."""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, wait
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple
from uuid import uuid4

from app.rating.errors import ClusterError
from app.rating.threads import map_parts, one_blas_thread

WORTH_A_PARTITION = 250_000  # cells; a pass over fewer takes no longer than a message and its answer
IDLE_SECONDS = 600.0  # after which a partition belongs to a fit that has died; if not, it is built again
ATTEMPTS = 4  # at one message, before the fit fails

Build = Callable[[], Any]


class Message(NamedTuple):
    """A method of a partition with its arguments."""

    work: Callable[..., Any]
    args: tuple[Any, ...]
    named: dict[str, Any]

    def __call__(self, partition: Any) -> Any:
        """Call the method."""
        return self.work(partition, *self.args, **self.named)


class PartitionKey(NamedTuple):
    """Names a partition in the process that holds it. A later fit of the same driver takes the place over."""

    driver: str
    part: int


@dataclass
class _Held:
    """A partition, the fit that it belongs to, and how many of the fit's messages it has had."""

    fit: int
    partition: Any
    messages: int = 0
    used: float = 0.0


_held: dict[PartitionKey, _Held] = {}
"""The partitions that this process holds. One at work is not in it, so no two threads share one."""


def advance(place: PartitionKey, fit: int, done: int, messages: Sequence[Message], build: Build | None) -> Any:
    """Apply messages of a fit to its partition, which has had `done` of them; return the answer to the last one.

    Parameters
    ----------
    build : makes the partition anew; without it None is returned where this process lacks the partition at that point

    Returns
    -------
    A tuple of the answer, or None.
    """
    held = _held.pop(place, None)
    if build is not None:
        for other, idle in list(_held.items()):
            if time.monotonic() - idle.used > IDLE_SECONDS:
                _held.pop(other, None)
        held = _Held(fit, build())
    if held is None or (held.fit, held.messages) != (fit, done):
        return None
    answer = None
    with one_blas_thread():
        for message in messages:
            answer = message(held.partition)
    held.messages, held.used = done + len(messages), time.monotonic()
    _held[place] = held
    return (answer,)


def release(driver: str) -> None:
    """Forget the partitions of a driver."""
    for place in list(_held):
        if place.driver == driver:
            _held.pop(place, None)


class Executors:
    """Executors that hold the partitions of fits, one partition each.

    Parameters
    ----------
    executors : each should lead to one process, such as `ProcessPoolExecutor(1)`, because partitions stay where they
        are. With one that chooses among several processes the results are the same, but partitions are built again and
        again. An executor that is named twice gets two partitions.
    worth : cells from which a partition is worth its messages; smaller fits stay on the threads of this process;
        default 250,000
    """

    lost: tuple[type[Exception], ...] = (BrokenExecutor, CancelledError)
    """Errors of a task whose process has died."""

    def __init__(self, executors: Sequence[Executor], *, worth: int | None = None) -> None:
        self.driver, self._worth = uuid4().hex, WORTH_A_PARTITION if worth is None else worth
        self._live = list(executors)

    @property
    def number(self) -> int:
        """How many executors are left."""
        return len(self._live)

    def count_partitions(self, n_cells: int) -> int:
        """Return how many partitions a fit of so many cells has; 0 if it should stay here."""
        return min(len(self._live), n_cells // self._worth)

    def choose(self, part: int) -> Executor:
        """Return the executor of a partition.

        Raises
        ------
        ClusterError
            None is left.
        """
        if not self._live:
            raise ClusterError("every process that held a part of the votes has died")
        return self._live[part % len(self._live)]

    def keep_or_replace(self, part: int, executor: Executor, *, failed: bool) -> Executor:
        """Return the executor that a partition goes on with after its executor failed or lost the partition."""
        if failed and executor in self._live:
            self._live = [each for each in self._live if each is not executor]
        return executor if executor in self._live else self.choose(part)

    def send(self, executor: Executor, build: Build) -> Any:  # noqa: ARG002  of a cluster
        """Return what a task gets as `build`."""
        return build

    def wait(self, future: "Future[Any]") -> None:
        """Wait for an answer."""
        wait([future])

    def release(self) -> None:
        """Forget the partitions, so that the processes have their memory back."""
        for executor in {id(each): each for each in self._live}.values():
            with suppress(*self.lost):
                executor.submit(release, self.driver).result()


class RemoteParts:
    """The partitions of one fit on executors.

    A partition is a function of its votes and of the messages it has had. So it can be built again, from the votes and
    the log of messages: in the beginning, and wherever a process lacks it. A process that dies is survived.
    """

    _numbers = count()

    def __init__(self, executors: Executors, build: Sequence[Build]) -> None:
        self._executors, self._build, self._fit, self.number = executors, build, next(self._numbers), len(build)
        self._logs: list[list[Message]] = [[] for _ in build]
        self._on = [executors.choose(part) for part in range(len(build))]

    def run(self, messages: Sequence[Message]) -> list[Any]:
        """Send each partition its message; answers in order.

        Raises
        ------
        ClusterError
            Processes died time and again, or none is left.
        """
        for log, message in zip(self._logs, messages, strict=True):
            log.append(message)
        asked = [self._ask(part, again=len(log) == 1) for part, log in enumerate(self._logs)]
        return [self._answer(part, future) for part, future in enumerate(asked)]

    def close(self) -> None:
        """Forget the partitions."""
        self._executors.release()

    def _ask(self, part: int, *, again: bool) -> "Future[tuple[Any] | None]":
        """Send the last message, or the votes and all messages again."""
        executor, log = self._on[part], self._logs[part]
        place = PartitionKey(self._executors.driver, part)
        try:
            build = self._executors.send(executor, self._build[part]) if again else None
            done = 0 if again else len(log) - 1
            return executor.submit(advance, place, self._fit, done, tuple(log[done:]), build)
        except self._executors.lost as error:
            failed = Future[tuple[Any] | None]()
            failed.set_exception(error)
            return failed

    def _answer(self, part: int, future: "Future[tuple[Any] | None]") -> Any:
        last: Exception | None = None
        for _ in range(ATTEMPTS):
            self._executors.wait(future)
            failed = False
            try:
                answer = future.result()
            except self._executors.lost as error:
                answer, last, failed = None, error, True
            if answer is not None:
                return answer[0]
            self._on[part] = self._executors.keep_or_replace(part, self._on[part], failed=failed)
            future = self._ask(part, again=True)
        raise ClusterError(f"processes that held a part of the votes died {ATTEMPTS} times in a row: {last}")


class LocalParts:
    """Partitions in this process, whose threads work on them."""

    def __init__(self, build: Sequence[Build]) -> None:
        self.number, self.parts = len(build), map_parts(lambda make: make(), build)

    def run(self, messages: Sequence[Message]) -> list[Any]:
        """Send each partition its message; answers in order."""
        return map_parts(lambda pair: pair[1](pair[0]), zip(self.parts, messages, strict=True))

    def close(self) -> None:
        """Forget the partitions."""
        self.parts = []


Parts = LocalParts | RemoteParts


def place_parts(n_cells: int, build: Callable[[int | None], Sequence[Build]]) -> Parts:
    """Place the partitions of a fit here, or on the executors in force if it has cells enough.

    Parameters
    ----------
    build : what makes the partitions, of which there are to be so many; None for any number
    """
    executors = current_executors()
    number = 0 if executors is None else executors.count_partitions(n_cells)
    builds = build(number or None)
    return LocalParts(builds) if executors is None or number == 0 else RemoteParts(executors, builds)


_current: ContextVar[Executors | None] = ContextVar("executors", default=None)


@contextmanager
def fitting_on(executors: Executors) -> Iterator[None]:
    """Let the fits of am-ELO in this block hold their partitions on executors."""
    token = _current.set(executors)
    try:
        yield
    finally:
        _current.reset(token)


def current_executors() -> Executors | None:
    """Return the executors of the block that this is called in."""
    return _current.get()
