import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def own_foreground() -> Iterator[None]:
    """Keep Ctrl-C from a parent that shares the terminal and the process group.

    Under `make`, Ctrl-C would reach make too, which then reports an interrupted target whatever the command returns.
    A shell gives each job a group of its own, and without a terminal there is no Ctrl-C: then nothing changes.
    """
    parent_group = os.getpgrp()
    if parent_group == os.getpid() or not sys.stdin.isatty() or os.tcgetpgrp(sys.stdin.fileno()) != parent_group:
        yield
        return
    os.setpgid(0, 0)
    previous = signal.signal(
        signal.SIGTTOU, signal.SIG_IGN
    )  # or the kernel stops a process that is not in the foreground
    os.tcsetpgrp(sys.stdin.fileno(), os.getpgrp())
    try:
        yield
    finally:
        os.tcsetpgrp(sys.stdin.fileno(), parent_group)
        signal.signal(signal.SIGTTOU, previous)
