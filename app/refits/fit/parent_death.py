"""How a child process ends with its parent, even if that is killed: the kernel closes a dead process's pipes."""

import contextlib
import os
import threading
from multiprocessing.connection import Connection


def end_with_parent(lifeline: Connection) -> None:
    """Exit, from a thread of its own, when the parent's end of the pipe closes, be it by its will or by its death."""
    threading.Thread(target=_end_with, args=(lifeline,), name="lifeline", daemon=True).start()


def _end_with(lifeline: Connection) -> None:
    with contextlib.suppress(EOFError, OSError):
        lifeline.recv_bytes()
    os._exit(1)
