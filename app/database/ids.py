from collections.abc import Callable
from uuid import UUID

from uuid_utils import compat

new_id: Callable[[], UUID] = compat.uuid7
"""Return a new UUIDv7. These ids grow with time, which keeps the indexes of bulk loads in memory."""
