"""What tests of imports upload, and what then is stored."""

from sqlalchemy import text

from app.database.engine import Database

HEADER = "annotator,model_a,model_b,winner,battle_id\n"
TABLES = ("votes", "imports", "file_chunks", "leases")


def count(database: Database, table: str = "votes") -> int:
    with database.read() as conn:
        return int(conn.execute(text(f"SELECT count(*) FROM {table}")).scalar_one())


def zstd_of_zeros(size: int) -> bytes:
    """Return a zstd file that expands to so many zeros, in 32 bytes for each MiB: its blocks repeat a byte."""
    blocks = [(last | 1 << 1 | 128 * 1024 << 3).to_bytes(3, "little") + b"\0" for last in (0, 1)]
    return b"\x28\xb5\x2f\xfd\0\x58" + blocks[0] * (size // (128 * 1024) - 1) + blocks[1]


class KilledError(BaseException):
    """Passes by every handler, as a kill does."""
