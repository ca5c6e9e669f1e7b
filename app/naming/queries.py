"""Names and the numbers that votes store for them."""

from collections.abc import Collection, Iterable

from sqlalchemy import Connection, text

from app.database.ids import new_id
from app.naming.pseudonyms import MADE, STORED

_ADD_MODELS = text("INSERT INTO models (name) SELECT unnest(CAST(:names AS text[])) ON CONFLICT (name) DO NOTHING")
_ADD_ANNOTATORS = text(
    "INSERT INTO annotators (key, public_id) SELECT * FROM unnest(CAST(:keys AS text[]), CAST(:ids AS uuid[])) "
    "ON CONFLICT (key) DO NOTHING"
)
_FIND_ANNOTATORS = text("SELECT key, id FROM annotators WHERE key = ANY(:keys)")
_HAS_RAW_KEYS = text("SELECT EXISTS (SELECT FROM annotators WHERE key !~ :stored)")
# A caller can choose a key that looks like a pseudonym. So one raw key is enough to show that keys are stored raw.
_HAS_ONLY_PSEUDONYMS = text(
    "SELECT NOT EXISTS (SELECT FROM annotators WHERE key !~ :stored) "
    "AND EXISTS (SELECT FROM annotators WHERE key ~ :made)"
)


def add_models(conn: Connection, names: Collection[str]) -> None:
    """Add models that are not on record yet."""
    # In the same order two writers of the same names wait for each other. In different orders they deadlock.
    conn.execute(_ADD_MODELS, {"names": sorted(names)})


def add_annotators(conn: Connection, keys: Collection[str]) -> None:
    """Add annotators that are not on record yet, in order as `add_models` does."""
    conn.execute(_ADD_ANNOTATORS, {"keys": sorted(keys), "ids": [new_id() for _ in keys]})


def find_numbers(conn: Connection, keys: Iterable[str]) -> dict[str, int]:
    """Return the number of each annotator that is on record, by the stored key."""
    return {row[0]: row[1] for row in conn.execute(_FIND_ANNOTATORS, {"keys": list(keys)})}


def has_raw_keys(conn: Connection) -> bool:
    """Whether any annotator is on record under a raw key."""
    return bool(conn.execute(_HAS_RAW_KEYS, {"stored": STORED}).scalar_one())


def has_only_pseudonyms(conn: Connection) -> bool:
    """Whether there are annotators and all of them are on record under pseudonyms."""
    return bool(conn.execute(_HAS_ONLY_PSEUDONYMS, {"stored": STORED, "made": MADE}).scalar_one())
