"""Where a command's result goes: standard output, or a file that is replaced whole or not at all."""

import os
import secrets
import sys
from pathlib import Path

from app.errors import BadInputError


def check_output(path: Path) -> None:
    """Refuse, before any work is done, a path that cannot be written.

    Raises
    ------
    BadInputError : it is a folder, or its folder does not exist.
    """
    if path.is_dir():
        raise BadInputError(f"{path} is a folder, not a file to write")
    if not path.absolute().parent.is_dir():
        raise BadInputError(f"the folder {path.absolute().parent} does not exist")


def write_output(content: bytes, path: Path | None) -> None:
    """Write to the file, or to standard output without one.

    A regular file is replaced in one step: who reads it sees the old content or the new, never a part.
    """
    if path is None:
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        sys.stdout.flush()  # a closed pipe shows here, not at interpreter exit where nobody can catch it
        return
    if path.exists() and not path.is_file():
        path.write_bytes(content)  # a device or a pipe cannot be replaced
        return
    _replace(path.resolve(), content)


def _replace(path: Path, content: bytes) -> None:
    draft = path.with_name(f".{path.name[:100]}.{secrets.token_hex(8)}")
    try:
        with draft.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            draft.chmod(path.stat().st_mode & 0o7777)
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
