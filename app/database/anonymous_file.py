import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

_OPEN_FILES = Path("/proc/self/fd")


@contextmanager
def nameless_file() -> Iterator[tuple[IO[bytes], Path]]:
    """Make a temporary file that ends with this process, however it dies; yield it and a path of it for this process.

    It is for what must not be left lying about. No folder has a name for it, so the kernel drops it when nobody has it
    open any more. Where the kernel has no paths of open files, it has a name until the block ends.
    """
    if _OPEN_FILES.is_dir():
        with tempfile.TemporaryFile() as file:
            yield file, _OPEN_FILES / str(file.fileno())
    else:
        with tempfile.NamedTemporaryFile(prefix="stable-arena-") as file:
            yield file, Path(file.name)
