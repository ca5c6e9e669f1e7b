"""Locks on files, which the kernel releases when their holders die."""

import fcntl
import os
import weakref
from pathlib import Path
from typing import Self


class FileLock:
    """A held `flock`. The kernel releases it when its last holder has ended, even by a kill.

    It belongs to the open file, not to the process. A program that inherits `descriptor` holds it as well, and
    `hand_over` leaves it to that program. No other program inherits it.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        _held.add(self)

    @property
    def held(self) -> bool:
        """Whether this process still holds it; a forked child never does."""
        return self.descriptor >= 0

    def release(self) -> None:
        """Release it, also for the processes that inherited it."""
        if self.held:
            fcntl.flock(self.descriptor, fcntl.LOCK_UN)
            self.hand_over()

    def hand_over(self) -> None:
        """End this process's hold; the programs that inherited the lock still hold it."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def hold_exclusive(path: Path) -> FileLock:
    """Wait until no other process holds the lock file at `path`, then hold it alone."""
    return _lock(path, fcntl.LOCK_EX)


def hold_shared(path: Path) -> FileLock:
    """Hold the lock file at `path`; other processes may share it."""
    return _lock(path, fcntl.LOCK_SH)


def try_exclusive(path: Path) -> FileLock | None:
    """Hold the lock file at `path` alone, or return None at once if another process holds it."""
    try:
        return _lock(path, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return None


def _lock(path: Path, operation: int) -> FileLock:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, operation)
    except BaseException:
        os.close(descriptor)
        raise
    return FileLock(descriptor)


def _forget_inherited() -> None:
    # A forked child (multiprocessing) has copies of the descriptors. Kept open they would hold the locks after the
    # parent's end; unlocking them would release the parent's locks.
    for lock in list(_held):
        lock.hand_over()


_held: "weakref.WeakSet[FileLock]" = weakref.WeakSet()
os.register_at_fork(after_in_child=_forget_inherited)
