"""Lets open answers end when the server is asked to stop: it waits for them before it ends the application."""

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from app.state import ProcessState

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class OpenAnswers:
    """Answers that stay open or are kept back."""

    def __init__(self) -> None:
        self._ends: list[Callable[[], None]] = []

    def end_by(self, end: Callable[[], None]) -> None:
        """Note what ends some of them."""
        self._ends.append(end)

    def end(self) -> None:
        """End all of them."""
        for end in self._ends:
            end()


def provide_open_answers(state: ProcessState) -> None:
    """Hold the open answers, which end when the process is asked to stop."""
    state[OpenAnswers] = answers = OpenAnswers()
    state.closing.callback(answers.end)
    state.closing.enter_context(at_stop_signal(answers.end))


@contextmanager
def at_stop_signal(action: Callable[[], object]) -> Iterator[None]:
    """Call `action` on the event loop when the process is asked to stop; the signal then goes to its own handler.

    Outside the main thread, and for a signal without a handler, this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    own = {number: handler for number in _SIGNALS if callable(handler := signal.getsignal(number))}

    def handle(number: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(action)
        own[signal.Signals(number)](number, frame)

    for number in own:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in own.items():
            signal.signal(number, handler)
