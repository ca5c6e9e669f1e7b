"""Names and the numbers that stand for them in votes."""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, Table, bindparam, select, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.types import Text

from app.store.ids import new_id
from app.store.tables import annotators, models

_ADD_MODELS = text("INSERT INTO models (name) SELECT unnest(CAST(:names AS text[])) ON CONFLICT (name) DO NOTHING")
_ADD_ANNOTATORS = text(
    "INSERT INTO annotators (key, public_id) SELECT * FROM unnest(CAST(:names AS text[]), CAST(:ids AS uuid[])) "
    "ON CONFLICT (key) DO NOTHING"
)


def resolve_models(conn: Connection, names: Iterable[str]) -> dict[str, int]:
    """Return the number of each model, adding those that are new."""
    wanted = set(names)
    found = _look_up(conn, models, "name", wanted)
    if missing := _in_order(wanted - found.keys()):
        conn.execute(_ADD_MODELS, {"names": missing})
        found |= _look_up(conn, models, "name", missing)
    return found


def resolve_annotators(conn: Connection, keys: Iterable[str]) -> dict[str, int]:
    """Return the number of each annotator, adding those that are new."""
    wanted = set(keys)
    found = _look_up(conn, annotators, "key", wanted)
    if missing := _in_order(wanted - found.keys()):
        conn.execute(_ADD_ANNOTATORS, {"names": missing, "ids": [new_id() for _ in missing]})
        found |= _look_up(conn, annotators, "key", missing)
    return found


def _in_order(names: set[str]) -> list[str]:
    # Two writers that add the same names in the same order wait for each other; in different orders they deadlock.
    return sorted(names)


def _look_up(conn: Connection, table: Table, column: str, names: Iterable[str]) -> dict[str, int]:
    name = table.c[column]
    wanted: Any = bindparam("wanted", list(names), type_=ARRAY(Text))
    rows = conn.execute(select(name, table.c.id).where(name == wanted.any_()))
    return {row[0]: row[1] for row in rows}
