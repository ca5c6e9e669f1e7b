"""What all tables share: the names of constraints and the columns that the database fills in."""

from typing import Any

from sqlalchemy import Column, DateTime, MetaData, Table, Text, text
from sqlalchemy.schema import SchemaItem
from sqlalchemy.types import UserDefinedType

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


class Xid8(UserDefinedType[str]):
    """PostgreSQL's 64-bit transaction id, which tells which votes a database snapshot saw."""

    cache_ok = True

    def get_col_spec(self, **_: object) -> str:
        """Return the type's name in SQL."""
        return "xid8"


def table(name: str, *parts: SchemaItem, **options: Any) -> Table:
    """Return a table of the service's schema."""
    return Table(name, metadata, *parts, **options)


def texts(*names: str) -> list[Column[str]]:
    """Return columns for texts that are never null."""
    return [Column(name, Text, nullable=False) for name in names]


def timestamp(name: str, *, nullable: bool = False) -> Column[object]:
    """Return a column for a time; the default is now, unless it may be unknown."""
    default = None if nullable else text("now()")
    return Column(name, DateTime(timezone=True), nullable=nullable, server_default=default)


def transaction(name: str) -> Column[str]:
    """Return a column for the transaction that wrote the row."""
    return Column(name, Xid8(), nullable=False, server_default=text("pg_current_xact_id()"))
