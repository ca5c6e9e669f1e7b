"""One program, run on parts of the annotators at the same time. Each part holds its own votes.

Where the program needs a sum or a list over all parts, it calls `join` or `total` and waits for the others. Without
parts it goes on at once: one process is the case of a single part.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import ContextVar
from functools import partial, reduce
from itertools import pairwise
from operator import add
from queue import SimpleQueue
from threading import Thread
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from app.rating.errors import ClusterError
from app.rating.executors import LocalParts, Message, RemoteParts, current_executors
from app.rating.threads import available_threads, work_alone

T = TypeVar("T")
R = TypeVar("R")


class Question(NamedTuple):
    """What is to be made of the values of all parts, in their order."""

    function: Callable[[list[Any]], Any]
    values: list[Any]

    @property
    def kind(self) -> object:
        """The function without its arguments, which are the same in all parts."""
        return getattr(self.function, "func", self.function)


class Results(NamedTuple):
    """What parts return at their end."""

    values: list[Any]


Found = Question | Results | Exception


class _StoppedError(BaseException):
    """The computation is over, without a result."""


class Part:
    """A program on a thread of its own, which waits between a question and its answer."""

    def __init__(self, number: int, work: Callable[[], Any]) -> None:
        self.number = number
        self._answers, self._found = SimpleQueue[Any](), SimpleQueue[Found]()
        Thread(target=self._run, args=(work,), daemon=True).start()

    def advance(self, answer: Any) -> Found:
        """Let the program go on to its next question, or to its end; the first answer starts it."""
        self._answers.put(answer)
        return self._found.get()

    def stop(self) -> None:
        """End the program where it waits."""
        self._answers.put(_StoppedError)

    def ask(self, question: Question) -> Any:
        """Return the answer to a question of this program."""
        self._found.put(question)
        return self._wait()

    def _wait(self) -> Any:
        answer = self._answers.get()
        if answer is _StoppedError:
            raise _StoppedError
        return answer

    def _run(self, work: Callable[[], Any]) -> None:
        work_alone()
        _part.set(self)
        with suppress(_StoppedError):
            self._wait()
            found: Found
            try:
                found = Results([work()])
            except Exception as error:  # noqa: BLE001  of the program, raised where its parts are joined
                found = error
            self._found.put(found)


class Group:
    """Parts that a process works on one after the other, so that it needs the room of one of them at a time."""

    def __init__(self, first: int, works: Sequence[Callable[[], Any]]) -> None:
        self._parts = [Part(first + place, work) for place, work in enumerate(works)]

    def advance(self, answer: Any) -> Found:
        """Let all parts go on."""
        found = merge([part.advance(answer) for part in self._parts])
        if isinstance(found, Question) and found.kind in ASSOCIATIVE:
            return found._replace(values=[found.function(found.values)])
        return found

    def __del__(self) -> None:
        for part in self._parts:
            part.stop()


def merge(found: Sequence[Found]) -> Found:
    """Return the questions of parts as one, or their results; the first error if there is one."""
    for one in found:
        if isinstance(one, Exception):
            return one
    first, values = found[0], [value for one in found for value in one.values]  # type: ignore[union-attr]  # no error
    if len({one.kind if isinstance(one, Question) else Results for one in found}) > 1:
        asked = sorted(
            {getattr(one.kind, "__qualname__", "") if isinstance(one, Question) else "the end" for one in found}
        )
        return ClusterError(f"the parts of the votes went different ways, to {' and '.join(asked)}")
    return first._replace(values=values)  # type: ignore[union-attr]


def run_parts(works: Sequence[Callable[[], T]]) -> list[T]:
    """Run a program on its parts, on the executors in force or else on the threads of this process; results in order.

    Raises
    ------
    ClusterError
        As `RemoteParts`.
    Exception
        What the program raises in a part.
    """
    executors = current_executors()
    number = min(len(works), available_threads() if executors is None else executors.number)
    cuts = [len(works) * place // number for place in range(number + 1)]
    build = [partial(Group, first, works[first:last]) for first, last in pairwise(cuts)]
    parts = LocalParts(build) if executors is None else RemoteParts(executors, build)
    answer = None
    try:
        while True:
            found = merge(parts.run([Message(Group.advance, (answer,), {})] * number))
            match found:
                case Results():
                    return found.values
                case Question():
                    answer = found.function(found.values)
                case error:
                    raise error
    finally:
        parts.close()


_part: ContextVar[Part | None] = ContextVar("part", default=None)


def join(function: Callable[[list[T]], R], value: T) -> R:
    """Return the function of the values of all parts, in their order."""
    part = _part.get()
    answer: R = function([value]) if part is None else part.ask(Question(function, [value]))
    return answer


def deal(function: Callable[[list[T]], Sequence[R]], value: T) -> R:
    """Return this part's own of what the function returns for each part."""
    part = _part.get()
    return join(function, value)[0 if part is None else part.number]


def add_up(values: list[Any]) -> Any:
    """Return the sum of numbers, arrays or `Sums`."""
    return reduce(add, values)


ASSOCIATIVE: set[object] = {add_up}
"""Functions that a group may apply to the values of its parts first."""


def total(value: T) -> T:
    """Return the sum of the values of all parts."""
    found: T = join(add_up, value)
    return found


def anywhere(mask: "NDArray[Any] | bool") -> bool:
    """Whether something is true in any part."""
    return total(int(np.any(mask))) > 0


def concatenated(values: list[NDArray[Any]]) -> NDArray[Any]:
    """Return the arrays of all parts as one, over the last axis."""
    return values[0] if len(values) == 1 else np.concatenate(values, axis=-1)


def place_among(number: int) -> tuple[int, int]:
    """Return how many the parts before this one have, and all of them, if this one has so many."""
    return deal(_places, number)


def _places(numbers: list[int]) -> list[tuple[int, int]]:
    before = np.cumsum([0, *numbers]).tolist()
    return [(first, before[-1]) for first in before[:-1]]
