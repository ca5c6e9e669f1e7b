"""The audit log, webhooks and their deliveries."""

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
    Table,
    Text,
    Uuid,
    text,
)

from app.database.tables.columns import metadata, timestamp

audit_log = Table(
    "audit_log",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("happened_at", DateTime(timezone=True), nullable=False),
    Column("actor", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("detail", Text, nullable=False),
    Column("previous_hash", LargeBinary, nullable=False),
    Column("hash", LargeBinary, nullable=False),
)

webhooks = Table(
    "webhooks",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("url", Text, nullable=False),
    Column("events", ARRAY(Text), nullable=False),
    Column("secret", Text, nullable=False),
    Column("created_by", Text, nullable=False),
    timestamp("created_at"),
    timestamp("deleted_at", nullable=True),
    timestamp("paused_at", nullable=True),
)

webhook_deliveries = Table(
    "webhook_deliveries",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("webhook_id", Uuid, ForeignKey("webhooks.id"), nullable=False, index=True),
    Column("event", Text, nullable=False),
    Column("payload", Text, nullable=False),
    timestamp("created_at"),
    Column("attempts", Integer, nullable=False, server_default="0"),
    timestamp("next_attempt_at"),
    timestamp("ended_at", nullable=True),
    Column("status", Text, nullable=False, server_default="waiting"),
    Column("detail", Text),
    CheckConstraint("status IN ('waiting', 'delivered', 'given_up')", name="status_known"),
    Index("ix_webhook_deliveries_next_attempt_at", "next_attempt_at", postgresql_where=text("status = 'waiting'")),
)
