"""What a child process does first: it leaves the terminal to its parent, ends with it, and lets requests go first."""

import contextlib
import os
import signal
import threading
from multiprocessing.connection import Connection
from pathlib import Path

WORKER_PRIORITY = 10
"""Beside a busy process a tenth of a processor is left, so that it can still stop in time."""
ON_DEMAND_PRIORITY = 5
"""Of a fit that a person waits for: beside a busy process a quarter of a processor is left, and requests go first."""
LOWEST_PRIORITY = 19
"""Of refits. Beside busy processes little is left for them, and answers that a person waits for come first."""
SESSION_PRIORITY = 5
"""Of the session: requests interrupt it at once, and beside a busy session a quarter of a processor is left."""
AUTOGROUP = Path("/proc/self/autogroup")


def become_child(parent_death: Connection) -> None:
    """Ignore Ctrl-C and SIGHUP, which the parent handles, and exit when the parent does, even if it was killed.

    Parameters
    ----------
    parent_death : the reading end of a pipe whose writing end only the parent has. The kernel closes that end with the
        parent.
    """
    for name in (signal.SIGINT, signal.SIGHUP):
        signal.signal(name, signal.SIG_IGN)
    threading.Thread(target=_exit_with_parent, args=(parent_death,), name="parent death", daemon=True).start()


def lower_priority(niceness: int) -> None:
    """Let other processes go first: work that takes minutes must not delay answers that take milliseconds.

    Call it before a thread starts: on Linux each thread has a priority of its own, inherited from the thread that
    started it.
    """
    os.nice(niceness)  # the kernel stops at the lowest
    # Where Linux shares the processors among sessions first (`sched_autogroup_enabled`), that counts only within the
    # session. So this process leaves its parent's session for one of its own with a low priority.
    with contextlib.suppress(OSError):
        os.setsid()
        AUTOGROUP.write_text(str(SESSION_PRIORITY))


def _exit_with_parent(parent_death: Connection) -> None:
    with contextlib.suppress(EOFError, OSError):
        parent_death.recv_bytes()
    os._exit(1)
