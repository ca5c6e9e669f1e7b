from uuid import UUID

from uuid_utils import compat


def new_id() -> UUID:
    """Return a UUIDv7: ids that grow with time keep the indexes of bulk loads in memory."""
    return compat.uuid7()
