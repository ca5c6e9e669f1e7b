"""Responses stored under idempotency keys."""

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from sqlalchemy import Connection

KeyPair = tuple[UUID, str]
"""An API key, and an idempotency key that its holder chose."""

KEEP_HOURS = 24
"""Shortest time for which a response is kept."""

_LOCK = """
SELECT pg_try_advisory_xact_lock(hashtextextended(wanted.api_key_id || ' ' || wanted.key, 0))
FROM unnest(%(api_keys)b::uuid[], %(keys)b::text[]) WITH ORDINALITY AS wanted(api_key_id, key, place)
ORDER BY wanted.place
"""
_FIND = """
SELECT stored.api_key_id, stored.key, stored.fingerprint, stored.status, stored.answer
FROM idempotency_keys AS stored
JOIN unnest(%(api_keys)b::uuid[], %(keys)b::text[]) AS wanted(api_key_id, key)
  ON stored.api_key_id = wanted.api_key_id AND stored.key = wanted.key
"""
_ADD = """
INSERT INTO idempotency_keys (api_key_id, key, fingerprint, status, answer)
SELECT * FROM unnest(%(api_keys)b::uuid[], %(keys)b::text[], %(fingerprints)b::bytea[], %(statuses)b::smallint[],
                     %(answers)b::bytea[])
"""
# Every insert deletes up to twice as many expired rows, so that no job has to. Rows that another transaction deletes at
# the same time are skipped.
_PURGE = """
DELETE FROM idempotency_keys WHERE (api_key_id, key) IN (
    SELECT api_key_id, key FROM idempotency_keys WHERE created_at < now() - make_interval(hours => %(hours)s)
    ORDER BY created_at LIMIT %(most)s FOR UPDATE SKIP LOCKED
)
"""


class ResponseRow(NamedTuple):
    """The response to the first request with a key."""

    fingerprint: bytes
    status: int
    body: bytes


def try_lock_keys(conn: Connection, keys: Sequence[KeyPair]) -> list[bool]:
    """Try to lock keys until the transaction ends; say for each, in order, whether it is locked now."""
    return list(conn.exec_driver_sql(_LOCK, _columns(keys)).scalars())


def find_responses(conn: Connection, keys: Sequence[KeyPair]) -> dict[KeyPair, ResponseRow]:
    """Return the responses that are stored under these keys."""
    rows = conn.exec_driver_sql(_FIND, _columns(keys))
    return {
        (api_key, key): ResponseRow(bytes(fingerprint), status, bytes(body))
        for api_key, key, fingerprint, status, body in rows
    }


def add_responses(conn: Connection, responses: Sequence[tuple[KeyPair, ResponseRow]]) -> None:
    """Store responses under keys that have none, and delete some that are older than `KEEP_HOURS`."""
    values = {
        **_columns([key for key, _ in responses]),
        "fingerprints": [row.fingerprint for _, row in responses],
        "statuses": [row.status for _, row in responses],
        "answers": [row.body for _, row in responses],
    }
    conn.exec_driver_sql(_ADD, values)
    conn.exec_driver_sql(_PURGE, {"hours": KEEP_HOURS, "most": 2 * len(responses)})


def _columns(keys: Sequence[KeyPair]) -> dict[str, object]:
    return {"api_keys": [api_key for api_key, _ in keys], "keys": [key for _, key in keys]}
