import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def own_foreground() -> Iterator[None]:
    """Take Ctrl-C for this process alone while the block runs, where a parent shares its terminal and process group.

    Under `make`, Ctrl-C would reach make too, which then reports an interrupted target whatever its command answers.
    A shell's job is a group of its own already; without a terminal nothing is changed.
    """
    parent_group = os.getpgrp()
    if parent_group == os.getpid() or not sys.stdin.isatty() or os.tcgetpgrp(sys.stdin.fileno()) != parent_group:
        yield
        return
    os.setpgid(0, 0)
    previous = signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # a group that is not in front may not take the front
    os.tcsetpgrp(sys.stdin.fileno(), os.getpgrp())
    try:
        yield
    finally:
        os.tcsetpgrp(sys.stdin.fileno(), parent_group)
        signal.signal(signal.SIGTTOU, previous)
