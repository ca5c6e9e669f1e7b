"""What tests of imports upload, and what then is stored."""

from sqlalchemy import text

from app.database.engine import Database

HEADER = "annotator,model_a,model_b,winner,battle_id\n"
TABLES = ("votes", "imports", "file_chunks", "leases")


def count(database: Database, table: str = "votes") -> int:
    with database.read() as conn:
        return int(conn.execute(text(f"SELECT count(*) FROM {table}")).scalar_one())


class KilledError(BaseException):
    """Passes by every handler, as a kill does."""
