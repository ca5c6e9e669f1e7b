"""Which files have been imported."""

from typing import Any
from uuid import UUID

from sqlalchemy import Connection, RowMapping, func, insert, select, update

from app.store.tables import imports


def lock_file(conn: Connection, sha256: bytes) -> None:
    """Wait until no other transaction imports the same file, and keep others out until this one ends."""
    conn.execute(select(func.pg_advisory_xact_lock(int.from_bytes(sha256[:8], signed=True))))


def find_import(conn: Connection, sha256: bytes) -> RowMapping | None:
    """Return the newest import of a file with this hash: `id, counts`."""
    statement = select(imports.c.id, imports.c.counts).where(imports.c.sha256 == sha256)
    return conn.execute(statement.order_by(imports.c.created_at.desc()).limit(1)).mappings().one_or_none()


def add_import(conn: Connection, import_id: UUID, file_name: str, sha256: bytes) -> None:
    """Put an import on record, so that its votes can name it."""
    values = {
        "id": import_id,
        "file_name": file_name,
        "sha256": sha256,
        "counts": {},
        "state": "done",
        "requested_by": "import",
    }
    conn.execute(insert(imports).values(values))


def finish_import(conn: Connection, import_id: UUID, counts: dict[str, Any]) -> None:
    """Record how many votes met which fate."""
    conn.execute(update(imports).where(imports.c.id == import_id).values(counts=counts))
