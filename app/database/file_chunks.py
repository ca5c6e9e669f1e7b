"""The bytes of uploads and finished exports, in pieces that any process can read."""

from collections.abc import Iterator
from datetime import datetime
from itertools import count
from uuid import UUID

from sqlalchemy import Connection, delete, insert, not_, select, update

from app.database.engine import Database
from app.database.tables import exports, file_chunks, imports

CHUNK_BYTES = 1 << 20


def add_chunk(conn: Connection, file_id: UUID, number: int, content: bytes) -> None:
    """Add one piece of a file."""
    conn.execute(insert(file_chunks).values(file_id=file_id, number=number, content=content))


def read_chunks(database: Database, file_id: UUID) -> Iterator[bytes]:
    """Yield the pieces of a file in order, each read in its own transaction."""
    c = file_chunks.c
    for number in count():
        with database.read() as conn:
            statement = select(c.content).where(c.file_id == file_id, c.number == number)
            content: bytes | None = conn.execute(statement).scalar_one_or_none()
        if content is None:
            return
        yield content


def has_chunks(conn: Connection, file_id: UUID) -> bool:
    """Return whether the file has any piece."""
    statement = select(file_chunks.c.file_id).where(file_chunks.c.file_id == file_id)
    return bool(conn.execute(select(statement.exists())).scalar_one())


def drop_chunks(conn: Connection, file_id: UUID) -> None:
    """Delete a file."""
    conn.execute(delete(file_chunks).where(file_chunks.c.file_id == file_id))


def drop_orphans(conn: Connection, before: datetime) -> None:
    """Delete the files made before this time that no import or export owns: what interrupted uploads left."""
    oldest_kept = UUID(int=int(before.timestamp() * 1000) << 80)  # an id begins with its time in milliseconds
    c = file_chunks.c
    owned = [select(table.c.id).where(table.c.id == c.file_id).exists() for table in (imports, exports)]
    conn.execute(delete(file_chunks).where(c.file_id < oldest_kept, *(not_(one) for one in owned)))


def move_chunks(conn: Connection, file_id: UUID, to: UUID) -> None:
    """Give a file to another owner, which has no file yet."""
    conn.execute(update(file_chunks).where(file_chunks.c.file_id == file_id).values(file_id=to))
