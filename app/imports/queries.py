"""The stored imports: their files, their progress, and the errors in their records."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Connection, RowMapping, Text, and_, cast, func, insert, or_, select, update
from sqlalchemy import tuple_ as row_of
from sqlalchemy.dialects.postgresql import insert as insert_or

from app.database.tables import file_chunks, import_faults, imports, retractions, withdrawn_retractions

RUNNABLE = ("queued", "running")

_dry = imports.c.options["dry_run"].as_boolean()


def lock_file(conn: Connection, sha256: bytes) -> None:
    """Lock a file by its hash until the end of the transaction."""
    conn.execute(select(func.pg_advisory_xact_lock(int.from_bytes(sha256[:8], signed=True))))


def find_import(conn: Connection, sha256: bytes, *, to_change: bool = False) -> RowMapping | None:
    """Return the newest import of a file with this hash that has stored votes, or still can, and was not undone.

    `to_change`: lock it until the end of the transaction.
    """
    counts = or_(imports.c.state.in_((*RUNNABLE, "done")), and_(imports.c.state == "failed", imports.c.rows_done > 0))
    statement = select(imports).where(imports.c.sha256 == sha256, counts, func.coalesce(_dry, False).is_(False))
    statement = statement.where(_undone_by().is_(None))
    statement = statement.order_by(imports.c.created_at.desc()).limit(1)
    statement = statement.with_for_update(of=imports) if to_change else statement
    return conn.execute(statement).mappings().one_or_none()


def _undone_by() -> ColumnElement[UUID]:
    """Return the retraction that undid an import, and that was not withdrawn."""
    r = retractions.c
    withdrawn = select(withdrawn_retractions.c.retraction_id).where(withdrawn_retractions.c.retraction_id == r.id)
    found = select(r.id).where(r.target == "import", r.target_id == cast(imports.c.id, Text), ~withdrawn.exists())
    return found.order_by(r.id).limit(1).scalar_subquery().label("undone_by")


def read_imports(conn: Connection, import_ids: Sequence[UUID]) -> Sequence[RowMapping]:
    """Return these imports."""
    return conn.execute(select(imports).where(imports.c.id.in_(import_ids))).mappings().all()


def undone_imports(conn: Connection) -> Sequence[UUID]:
    """Return the imports that a retraction undid."""
    statement = select(imports.c.id).where(_undone_by().is_not(None))
    return conn.execute(statement).scalars().all()


def get_import(conn: Connection, import_id: UUID) -> RowMapping | None:
    """Return an import, or None."""
    return conn.execute(select(imports, _undone_by()).where(imports.c.id == import_id)).mappings().one_or_none()


def list_imports(conn: Connection, *, limit: int, before: tuple[datetime, UUID] | None) -> Sequence[RowMapping]:
    """Return imports, the newest first, those before (created_at, id)."""
    statement = select(imports, _undone_by()).order_by(imports.c.created_at.desc(), imports.c.id.desc()).limit(limit)
    if before is not None:
        statement = statement.where(row_of(imports.c.created_at, imports.c.id) < before)
    return conn.execute(statement).mappings().all()


def add_import(conn: Connection, import_id: UUID, values: Mapping[str, Any]) -> None:
    """Add an import, so that its votes can refer to it."""
    conn.execute(insert(imports).values(id=import_id, counts={}, **values))


def lock_import(conn: Connection, import_id: UUID) -> RowMapping:
    """Return an import, and lock it until the end of the transaction."""
    return conn.execute(select(imports).where(imports.c.id == import_id).with_for_update()).mappings().one()


def change_import(conn: Connection, import_id: UUID, **values: Any) -> None:
    """Change columns of an import."""
    conn.execute(update(imports).where(imports.c.id == import_id).values(values))


def begin_import(conn: Connection, import_id: UUID, **values: Any) -> None:
    """Set an import to running, which the caller has locked; keep the time of its first start."""
    started = func.coalesce(imports.c.started_at, func.clock_timestamp())
    change_import(conn, import_id, state="running", started_at=started, finished_at=None, **values)


def end_import(conn: Connection, import_id: UUID, state: str, **values: Any) -> None:
    """Set the final state of an import, which the caller has locked while it ran."""
    change_import(conn, import_id, state=state, finished_at=func.clock_timestamp(), **values)


def add_faults(conn: Connection, import_id: UUID, faults: Sequence[Mapping[str, Any]]) -> None:
    """Add errors of records: `record, place, kind, detail`; only the first error of a record is kept."""
    if faults:
        statement = insert_or(import_faults).on_conflict_do_nothing()
        conn.execute(statement, [{"import_id": import_id, **fault} for fault in faults])


def list_faults(
    conn: Connection, import_id: UUID, *, limit: int, after: int = -1, kind: str | None = None
) -> Sequence[RowMapping]:
    """Return the errors of an import by record, after this record, optionally of one kind."""
    c = import_faults.c
    statement = select(c.record, c.place, c.kind, c.detail).where(c.import_id == import_id, c.record > after)
    if kind is not None:
        statement = statement.where(c.kind == kind)
    return conn.execute(statement.order_by(c.record).limit(limit)).mappings().all()


def count_details(conn: Connection, import_id: UUID) -> Sequence[tuple[str, int]]:
    """Return the details of an import's invalid records, each once with its number, the most frequent first."""
    c, number = import_faults.c, func.count().label("number")
    statement = select(c.detail, number).where(c.import_id == import_id, c.kind == "invalid").group_by(c.detail)
    rows = conn.execute(statement.order_by(number.desc(), c.detail).limit(_MOST_DETAILS)).all()
    return [(detail, count) for detail, count in rows]


_MOST_DETAILS = 200


def count_faults(conn: Connection, import_id: UUID) -> int:
    """Return the number of stored errors of an import."""
    statement = select(func.count()).select_from(import_faults).where(import_faults.c.import_id == import_id)
    return conn.execute(statement).scalar_one()


def unplaced_records(conn: Connection, import_id: UUID) -> Sequence[int]:
    """Return the records whose errors have no place yet."""
    c = import_faults.c
    statement = select(c.record).where(c.import_id == import_id, c.place == "")
    return conn.execute(statement.order_by(c.record)).scalars().all()


def set_places(conn: Connection, import_id: UUID, places: Mapping[int, str]) -> None:
    """Set the places of these records."""
    conn.exec_driver_sql(
        """
        UPDATE import_faults AS f SET place = found.place
        FROM unnest(%(records)s::bigint[], %(places)s::text[]) AS found(record, place)
        WHERE f.import_id = %(import_id)s AND f.record = found.record
        """,
        {"import_id": import_id, "records": list(places), "places": list(places.values())},
    )


def runnable_imports(conn: Connection) -> Sequence[UUID]:
    """Return the queued and interrupted imports whose file is stored, the oldest first."""
    here = select(file_chunks.c.file_id).where(file_chunks.c.file_id == imports.c.id, file_chunks.c.number == 0)
    statement = select(imports.c.id).where(imports.c.state.in_(RUNNABLE), here.exists())
    return conn.execute(statement.order_by(imports.c.created_at, imports.c.id)).scalars().all()
