"""Names and the numbers that votes store for them."""

from collections.abc import Iterable

from sqlalchemy import Connection, text

from app.database.ids import new_id
from app.naming.aliases import ModelNames, Named, read_names
from app.naming.service import naming_of, require_fitting_keys

_ADD_MODELS = text("INSERT INTO models (name) SELECT unnest(CAST(:names AS text[])) ON CONFLICT (name) DO NOTHING")
_ADD_ANNOTATORS = text(
    "INSERT INTO annotators (key, public_id) SELECT * FROM unnest(CAST(:names AS text[]), CAST(:ids AS uuid[])) "
    "ON CONFLICT (key) DO NOTHING"
)
_FIND_ANNOTATORS = text("SELECT key, id FROM annotators WHERE key = ANY(:keys)")


def resolve_models(conn: Connection, named: set[Named]) -> ModelNames:
    """Return what the models' names stand for, after adding the models that are new.

    If unknown models are refused, nothing is added: a name that stands for no model at its time has no number.
    """
    names = {name for name, _ in named}
    found = read_names(conn, names)
    if naming_of(conn).unknown_models == "refuse":
        return found
    if missing := _in_order({name for name, at in named if found.number(name, at) is None}):
        conn.execute(_ADD_MODELS, {"names": missing})
        found = read_names(conn, names)
    return found


def resolve_annotators(conn: Connection, raw_keys: Iterable[str]) -> dict[str, int]:
    """Return the number of each annotator by the raw key, after adding those that are new, stored as `Naming` says."""
    naming = naming_of(conn)
    stored = {raw: naming.stored_keys(raw) for raw in raw_keys}
    numbers = _find_keys(conn, [key for keys in stored.values() for key in keys])
    if missing := _in_order({keys[0] for keys in stored.values() if numbers.keys().isdisjoint(keys)}):
        require_fitting_keys(conn)
        conn.execute(_ADD_ANNOTATORS, {"names": missing, "ids": [new_id() for _ in missing]})
        numbers |= _find_keys(conn, missing)
    return {raw: next(numbers[key] for key in keys if key in numbers) for raw, keys in stored.items()}


def find_annotators(conn: Connection, raw_keys: Iterable[str]) -> dict[str, int]:
    """Return the number of each annotator that is on record, by the raw key."""
    naming = naming_of(conn)
    stored = {raw: naming.stored_keys(raw) for raw in raw_keys}
    numbers = _find_keys(conn, [key for keys in stored.values() for key in keys])
    found = {raw: next((numbers[key] for key in keys if key in numbers), None) for raw, keys in stored.items()}
    return {raw: number for raw, number in found.items() if number is not None}


def _in_order(names: set[str]) -> list[str]:
    # Two writers that add the same names in the same order wait for each other; in different orders they deadlock.
    return sorted(names)


def _find_keys(conn: Connection, keys: list[str]) -> dict[str, int]:
    return {row[0]: row[1] for row in conn.execute(_FIND_ANNOTATORS, {"keys": keys})}
