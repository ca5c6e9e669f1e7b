"""How signals end a command: in order, so that nothing that it has started goes on without it."""

import signal
import threading
import time
from collections.abc import Iterable
from typing import NoReturn

_REPEATED_SECONDS = 5.0
"""A terminal that closes sends SIGHUP twice, by its shell and by the kernel: the second is the same wish."""


def heeds_hangup() -> bool:
    """Whether SIGHUP, the end of the terminal's session, ends this process: under `nohup` it does not."""
    return signal.getsignal(signal.SIGHUP) != signal.SIG_IGN


def stop_signals() -> set[signal.Signals]:
    """Return the signals that end a command."""
    return {signal.SIGINT, signal.SIGTERM} | ({signal.SIGHUP} if heeds_hangup() else set())


def end_as_at_ctrl_c() -> None:
    """Let SIGTERM and SIGHUP end this process as Ctrl-C does: it stops what it has started, such as PostgreSQL."""
    asked = -_REPEATED_SECONDS

    def interrupt(*_: object) -> None:
        nonlocal asked
        before, asked = asked, time.monotonic()
        if asked - before >= _REPEATED_SECONDS:
            raise KeyboardInterrupt

    for name in stop_signals() - {signal.SIGINT}:
        signal.signal(name, interrupt)


def stop_at_once(signals: Iterable[signal.Signals]) -> threading.Event:
    """Let these signals end the process in order while it starts, which takes long on a busy machine.

    They set the event that is returned, too: Python drops an exception that a handler raises within a finaliser.
    """
    stopped = threading.Event()

    def stop(*_: object) -> NoReturn:
        stopped.set()
        raise SystemExit(0)

    for name in signals:
        signal.signal(name, stop)
    return stopped
