"""Where the interface begins, and paths as they may be written down: annotators' keys stand in some of them."""

from uuid import UUID

PREFIX = "/api/v1"
_BEFORE = "/annotators/"
HIDDEN = "-"


def without_keys(path: str) -> str:
    """Return a request's path with a dash in the place of what may be an annotator's key; ids stay."""
    before, found, rest = path.partition(_BEFORE)
    if not found:
        return path
    reference, slash, tail = rest.rpartition("/")
    if not slash or not tail.isalpha() or _is_id(rest):
        # The whole rest is the reference, slashes and all, unless a plain word follows it: /history, /decisions.
        reference, slash, tail = rest, "", ""
    return f"{before}{found}{reference if _is_id(reference) else HIDDEN}{slash}{tail}"


def _is_id(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True
