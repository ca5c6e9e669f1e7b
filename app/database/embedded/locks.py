import fcntl
import os
import weakref
from pathlib import Path
from types import TracebackType
from typing import Self


class FileLock:
    """A held `flock`. The kernel drops it when its last holder is gone, however that one died.

    It belongs to the open file, not to the process: a program started with `descriptor` passed on holds it
    as well, and `hand_over` leaves it to that program. Everything else is kept from inheriting it.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        _held.add(self)

    @property
    def held(self) -> bool:
        """Whether this process still holds it; false in a forked child, which never does."""
        return self.descriptor >= 0

    def release(self) -> None:
        """Give it up, for every process that inherited it too."""
        if self.held:
            fcntl.flock(self.descriptor, fcntl.LOCK_UN)
            self.hand_over()

    def hand_over(self) -> None:
        """Give up this process's part; the lock lasts as long as the programs that it was passed to."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def hold_exclusive(path: Path) -> FileLock:
    """Wait until nobody else holds the lock file at `path`, then hold it alone."""
    return _lock(path, fcntl.LOCK_EX)


def hold_shared(path: Path) -> FileLock:
    """Hold the lock file at `path` together with others."""
    return _lock(path, fcntl.LOCK_SH)


def try_exclusive(path: Path) -> FileLock | None:
    """Hold the lock file at `path` alone, or return None at once where anybody else holds it."""
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
    # A forked child (multiprocessing) has copies of the descriptors: kept open they would hold the locks
    # beyond the parent's life, unlocked they would rob the parent.
    for lock in list(_held):
        lock.hand_over()


_held: "weakref.WeakSet[FileLock]" = weakref.WeakSet()
os.register_at_fork(after_in_child=_forget_inherited)
