"""Imports, exports, and the bytes of their files in pieces, so that any replica can resume them."""

from sqlalchemy import BigInteger, CheckConstraint, Column, ForeignKey, Integer, LargeBinary, Table, Text, Uuid
from sqlalchemy.dialects.postgresql import JSONB

from app.database.tables.columns import metadata, timestamp

imports = Table(
    "imports",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("state", Text, nullable=False),
    Column("file_name", Text, nullable=False),
    Column("sha256", LargeBinary, nullable=False, index=True),
    Column("bytes", BigInteger),
    Column("options", JSONB, nullable=False, server_default="{}"),
    Column("rows_done", BigInteger, nullable=False, server_default="0"),
    Column("rows_total", BigInteger),
    Column("counts", JSONB, nullable=False),
    Column("notes", JSONB, nullable=False, server_default="[]"),
    Column("detail", Text),
    Column("requested_by", Text, nullable=False),
    timestamp("created_at"),
    timestamp("started_at", nullable=True),
    timestamp("finished_at", nullable=True),
    CheckConstraint("state IN ('receiving', 'queued', 'running', 'done', 'failed')", name="state_known"),
)

import_faults = Table(
    "import_faults",
    metadata,
    Column("import_id", Uuid, ForeignKey("imports.id"), primary_key=True),
    Column("record", BigInteger, primary_key=True),
    Column("place", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("detail", Text, nullable=False),
    CheckConstraint("kind IN ('invalid', 'conflict')", name="kind_known"),
)

exports = Table(
    "exports",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("state", Text, nullable=False),
    Column("what", Text, nullable=False),
    Column("format", Text, nullable=False),
    Column("options", JSONB, nullable=False, server_default="{}"),
    Column("rows", BigInteger),
    Column("bytes", BigInteger),
    Column("detail", Text),
    Column("requested_by", Text, nullable=False),
    timestamp("created_at"),
    timestamp("finished_at", nullable=True),
    CheckConstraint("state IN ('queued', 'running', 'done', 'failed')", name="state_known"),
    CheckConstraint("what IN ('votes', 'annotators', 'leaderboard')", name="what_known"),
)

file_chunks = Table(
    "file_chunks",
    metadata,
    Column("file_id", Uuid, primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("content", LargeBinary, nullable=False),
)
