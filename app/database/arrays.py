from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ARRAY, TableValuedAlias, column, func, literal
from sqlalchemy.types import TypeEngine


def table_of_arrays(columns: Mapping[str, list[Any]], types: Mapping[str, TypeEngine[Any]]) -> TableValuedAlias:
    """Return columns of equal length as a table that a statement can select from: one array per column is sent."""
    arrays = [literal(columns[name], ARRAY(kind)) for name, kind in types.items()]
    names = [column(name, kind) for name, kind in types.items()]
    return func.unnest(*arrays).table_valued(*names, name="fresh").render_derived()


def array_text(items: Sequence[str]) -> str:
    """Return PostgreSQL's text form of an array. Arrays of unequal lengths cannot be sent as one of two dimensions."""
    if not items:
        return "{}"
    quoted = ('"' + item.replace("\\", "\\\\").replace('"', '\\"') + '"' for item in items)
    return "{" + ",".join(quoted) + "}"
