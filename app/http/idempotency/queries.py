"""Answers kept under the keys that their callers chose, so that a request sent again is answered, not done, again."""

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from sqlalchemy import Connection

KeyPair = tuple[UUID, str]
"""An API key and an idempotency key of its holder's choosing."""

_LOCK = """
SELECT pg_try_advisory_xact_lock(hashtextextended(wanted.api_key_id || ' ' || wanted.key, 0))
FROM unnest(%(api_keys)b::uuid[], %(keys)b::text[]) WITH ORDINALITY AS wanted(api_key_id, key, place)
ORDER BY wanted.place
"""
_FIND = """
SELECT kept.api_key_id, kept.key, kept.fingerprint, kept.status, kept.answer FROM idempotency_keys AS kept
JOIN unnest(%(api_keys)b::uuid[], %(keys)b::text[]) AS wanted(api_key_id, key)
  ON kept.api_key_id = wanted.api_key_id AND kept.key = wanted.key
"""
_ADD = """
INSERT INTO idempotency_keys (api_key_id, key, fingerprint, status, answer)
SELECT * FROM unnest(%(api_keys)b::uuid[], %(keys)b::text[], %(fingerprints)b::bytea[], %(statuses)b::smallint[],
                     %(answers)b::bytea[])
"""
# Whoever adds answers clears away twice as many expired ones: no job has to be run for it. Rows that another
# transaction is clearing away are left to it.
_PURGE = """
DELETE FROM idempotency_keys WHERE (api_key_id, key) IN (
    SELECT api_key_id, key FROM idempotency_keys WHERE created_at < now() - make_interval(hours => %(hours)s)
    ORDER BY created_at LIMIT %(most)s FOR UPDATE SKIP LOCKED
)
"""


class KeptAnswer(NamedTuple):
    """What was answered to the request that came with a key first."""

    fingerprint: bytes
    status: int
    answer: bytes


def try_lock_keys(conn: Connection, keys: Sequence[KeyPair]) -> list[bool]:
    """Try to hold keys until the transaction ends; say of each, in order, whether nobody else holds it."""
    return list(conn.exec_driver_sql(_LOCK, _columns(keys)).scalars())


def find_answers(conn: Connection, keys: Sequence[KeyPair]) -> dict[KeyPair, KeptAnswer]:
    """Return the answers that are kept under these keys."""
    rows = conn.exec_driver_sql(_FIND, _columns(keys))
    return {
        (api_key, key): KeptAnswer(bytes(mark), status, bytes(answer)) for api_key, key, mark, status, answer in rows
    }


def add_answers(conn: Connection, answers: Sequence[tuple[KeyPair, KeptAnswer]], *, keep_hours: int) -> None:
    """Keep answers under keys that hold none, and clear away some that are older than `keep_hours`."""
    values = {
        **_columns([key for key, _ in answers]),
        "fingerprints": [kept.fingerprint for _, kept in answers],
        "statuses": [kept.status for _, kept in answers],
        "answers": [kept.answer for _, kept in answers],
    }
    conn.exec_driver_sql(_ADD, values)
    conn.exec_driver_sql(_PURGE, {"hours": keep_hours, "most": 2 * len(answers)})


def _columns(keys: Sequence[KeyPair]) -> dict[str, object]:
    return {"api_keys": [api_key for api_key, _ in keys], "keys": [key for _, key in keys]}
