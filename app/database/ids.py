from collections.abc import Callable
from uuid import UUID

from uuid_utils import compat

new_id: Callable[[], UUID] = compat.uuid7
"""Return a new UUIDv7. These ids grow with time, which keeps the indexes of bulk loads in memory."""


def as_id(text: str) -> UUID | None:
    """Return the id that a text is; None where it is none."""
    try:
        return UUID(text)
    except ValueError:
        return None
