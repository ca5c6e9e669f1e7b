"""How a process that works for minutes lets those that answer in milliseconds go first."""

import contextlib
import os
from pathlib import Path

NICENESS = 19
SESSION_NICENESS = 10

_AUTOGROUP = Path("/proc/self/autogroup")


def let_others_go_first() -> None:
    """Make this process the nicest there is; to be called before it starts a thread.

    On Linux a thread's niceness is its own, taken from the thread that starts it. The nicest, not just a nice one: a
    process that waked interrupts another at once only where that one has had more than its share, which is the sooner,
    the smaller the share is. Not SCHED_IDLE: beside a service that is always busy a fit would never end, and a process
    without privileges could not take it back.

    Where the kernel shares processors out among sessions first (autogroups, usual on desktops), niceness only counts
    within a session. So the process leaves the service's session for one of its own, which is nice as well; less so,
    because it then stands back behind everybody's sessions, not only behind the service.
    """
    if os.nice(0) >= NICENESS:
        return  # from the process that started this one, and its session with it
    os.nice(NICENESS)  # the kernel stops at the nicest
    if hasattr(os, "SCHED_BATCH"):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    # The first process of a session or of a process group cannot leave it, and other kernels have no such file.
    with contextlib.suppress(OSError):
        os.setsid()
        _AUTOGROUP.write_text(str(SESSION_NICENESS))


def leave_a_processor_free() -> None:
    """Keep this process, and those it starts, off one of its processors, where there is another.

    However nice it is, what waits for a processor has to interrupt it first: on one where nothing of it runs there is
    nothing to interrupt. To be called before a thread is started.
    """
    if hasattr(os, "sched_setaffinity"):
        first, *others = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, others or [first])
