"""Files that are written as a whole: other processes see the old content or the new, never a part."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def draft_of(path: Path, *, private: bool = False) -> Iterator[Path]:
    """Yield an empty file beside this path, which takes its place at the end, once the disk has it.

    Only its owner may read it until then; with `private` this stays so, else it gets the permissions of the file that
    it replaces, or those of a new file. If the block raises, it is deleted.
    """
    draft = path.with_name(f".{path.name[:100]}.{secrets.token_hex(8)}")
    draft.touch(mode=0o600)
    try:
        yield draft
        with draft.open("rb+") as file:
            os.fsync(file.fileno())
        if not private:
            draft.chmod(path.stat().st_mode & 0o7777 if path.exists() else 0o666 & ~_umask())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
