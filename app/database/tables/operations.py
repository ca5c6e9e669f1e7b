"""What passes between the service and others: keys, sessions, the audit log, webhooks, imports and exports.

The bytes of files are stored in pieces, so that any replica can resume an import.
"""

from sqlalchemy import (
    ARRAY,
    BigInteger,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    Text,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from app.database.tables.columns import table, texts, timestamp

api_keys = table(
    "api_keys",
    Column("id", Uuid, primary_key=True),
    Column("name", Text, nullable=False),
    Column("prefix", Text, nullable=False, unique=True),
    Column("secret_hash", LargeBinary, nullable=False),
    Column("scopes", ARRAY(Text), nullable=False),
    timestamp("created_at"),
    timestamp("revoked_at", nullable=True),
    timestamp("expires_at", nullable=True),
    Column("replaced_by", Uuid, ForeignKey("api_keys.id")),
    Column("requests_per_minute", Integer),
    CheckConstraint("requests_per_minute > 0", name="requests_per_minute_positive"),
)

ingest_tokens = table(
    "ingest_tokens",
    Column("id", Uuid, primary_key=True),
    Column("api_key_id", Uuid, ForeignKey("api_keys.id"), nullable=False),
    Column("prefix", Text, nullable=False, unique=True),
    Column("secret_hash", LargeBinary, nullable=False),
    Column("annotator", Text),
    timestamp("created_at"),
    Column("expires_at", DateTime(timezone=True), nullable=False, index=True),
)

sessions = table(
    "sessions",
    Column("id", Uuid, primary_key=True),
    Column("api_key_id", Uuid, ForeignKey("api_keys.id"), index=True),
    # of a person that a provider signed in; of a session with a key, the key has them
    Column("name", Text),
    Column("scopes", ARRAY(Text)),
    Column("secret_hash", LargeBinary, nullable=False, unique=True),
    Column("browser", Text, nullable=False),
    timestamp("created_at"),
    timestamp("last_used_at"),
    Column("idle_until", DateTime(timezone=True), nullable=False),
    Column("expires_at", DateTime(timezone=True), nullable=False),
    CheckConstraint(
        "(api_key_id IS NULL) = (name IS NOT NULL) AND (name IS NULL) = (scopes IS NULL)", name="of_a_key_or_a_person"
    ),
)

sign_in_links = table(
    "sign_in_links",
    Column("id", Uuid, primary_key=True),
    Column("api_key_id", Uuid, ForeignKey("api_keys.id"), nullable=False),
    Column("secret_hash", LargeBinary, nullable=False, unique=True),
    timestamp("created_at"),
    Column("expires_at", DateTime(timezone=True), nullable=False),
)


audit_log = table(
    "audit_log",
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("happened_at", DateTime(timezone=True), nullable=False),
    *texts("actor", "action", "subject", "detail"),
    Column("previous_hash", LargeBinary, nullable=False),
    Column("hash", LargeBinary, nullable=False),
)

webhooks = table(
    "webhooks",
    Column("id", Uuid, primary_key=True),
    Column("url", Text, nullable=False),
    Column("events", ARRAY(Text), nullable=False),
    *texts("secret", "created_by"),
    timestamp("created_at"),
    timestamp("deleted_at", nullable=True),
    timestamp("paused_at", nullable=True),
)

webhook_deliveries = table(
    "webhook_deliveries",
    Column("id", Uuid, primary_key=True),
    Column("webhook_id", Uuid, ForeignKey("webhooks.id"), nullable=False, index=True),
    *texts("event", "payload"),
    timestamp("created_at"),
    Column("attempts", Integer, nullable=False, server_default="0"),
    timestamp("next_attempt_at"),
    timestamp("ended_at", nullable=True),
    Column("status", Text, nullable=False, server_default="waiting"),
    Column("detail", Text),
    CheckConstraint("status IN ('waiting', 'delivered', 'given_up')", name="status_known"),
    Index("ix_webhook_deliveries_next_attempt_at", "next_attempt_at", postgresql_where=text("status = 'waiting'")),
)


imports = table(
    "imports",
    Column("id", Uuid, primary_key=True),
    *texts("state", "file_name"),
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

import_faults = table(
    "import_faults",
    Column("import_id", Uuid, ForeignKey("imports.id"), primary_key=True),
    Column("record", BigInteger, primary_key=True),
    *texts("place", "kind", "detail"),
    CheckConstraint("kind IN ('invalid', 'conflict')", name="kind_known"),
)

exports = table(
    "exports",
    Column("id", Uuid, primary_key=True),
    *texts("state", "what", "format"),
    Column("options", JSONB, nullable=False, server_default="{}"),
    Column("rows", BigInteger),
    Column("bytes", BigInteger),
    Column("detail", Text),
    Column("requested_by", Text, nullable=False),
    timestamp("created_at"),
    timestamp("finished_at", nullable=True),
    CheckConstraint("state IN ('queued', 'running', 'done', 'failed')", name="state_known"),
    CheckConstraint("what IN ('votes', 'annotators', 'leaderboard', 'answers')", name="what_known"),
)

file_chunks = table(
    "file_chunks",
    Column("file_id", Uuid, primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("content", LargeBinary, nullable=False),
)
