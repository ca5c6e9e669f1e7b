"""The files that pages load: styles, scripts, icons. Their address has a hash of them all, so it never goes stale."""

from functools import cache
from hashlib import sha256
from pathlib import Path

FOLDER = Path(__file__).parent / "static"
PLACE = "/static"


@cache
def assets_version() -> str:
    """Return a hash of every file, which changes when one of them does."""
    digest = sha256()
    for path in sorted(path for path in FOLDER.rglob("*") if path.is_file()):
        digest.update(f"{path.relative_to(FOLDER)}\0".encode() + sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def asset(name: str) -> str:
    """Return the address of a file, such as `style.css`."""
    return f"{PLACE}/{assets_version()}/{name}"
