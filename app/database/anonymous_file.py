"""A temporary file that no killed process leaves behind."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

_OPEN_FILES = Path("/proc/self/fd")


@contextmanager
def anonymous_temp_file() -> Iterator[tuple[IO[bytes], Path]]:
    """Make a temporary file and yield it with a path that only this process can use.

    The file has no name in any folder, so the kernel removes it at the end of the process, even after a kill. Where
    the kernel has no paths of open files (macOS), the file has a name until the block ends.
    """
    if _OPEN_FILES.is_dir():
        with tempfile.TemporaryFile() as file:
            yield file, _OPEN_FILES / str(file.fileno())
    else:
        with tempfile.NamedTemporaryFile(prefix="stable-arena-") as file:
            yield file, Path(file.name)
