"""What the ids in the audit log stand for: an annotator's key, a file, a webhook's address."""

from collections.abc import Iterable, Mapping
from uuid import UUID

from sqlalchemy import Connection, text

_NAMES = text(
    """
    SELECT public_id, key AS name FROM annotators WHERE public_id = ANY(:ids)
    UNION ALL SELECT id, name FROM api_keys WHERE id = ANY(:ids)
    UNION ALL SELECT id, name FROM model_aliases WHERE id = ANY(:ids)
    UNION ALL SELECT id, file_name FROM imports WHERE id = ANY(:ids)
    UNION ALL SELECT id, url FROM webhooks WHERE id = ANY(:ids)
    UNION ALL SELECT id, 'the votes of a ' || target FROM retractions WHERE id = ANY(:ids)
    UNION ALL SELECT snapshots.refit_id, 'refit of snapshot ' || snapshots.number FROM snapshots
        WHERE snapshots.refit_id = ANY(:ids)
    """
)


def names_of(conn: Connection, texts: Iterable[str]) -> Mapping[str, str]:
    """Return the names of those texts that are ids; of an id without a name, its end, which differs most."""
    ids = {one: UUID(one) for one in texts if is_id(one)}
    named = {row[0]: row[1] for row in conn.execute(_NAMES, {"ids": list(ids.values())})} if ids else {}
    return {one: named.get(number, f"…{one[-8:]}") for one, number in ids.items()}


def is_id(value: object) -> bool:
    """Whether a value is an id as the log writes it."""
    try:
        return isinstance(value, str) and str(UUID(value)) == value
    except ValueError:
        return False
