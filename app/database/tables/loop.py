"""The loop: policies, the lease, refits, and decisions on annotators."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Double,
    ForeignKey,
    Identity,
    Index,
    Integer,
    Table,
    Text,
    Uuid,
)
from sqlalchemy.dialects.postgresql import JSONB

from app.database.tables.columns import metadata, timestamp, transaction

policies = Table(
    "policies",
    metadata,
    Column("version", Integer, Identity(), primary_key=True),
    Column("settings", JSONB, nullable=False),
    Column("reason", Text, nullable=False),
    Column("created_by", Text, nullable=False),
    timestamp("created_at"),
    transaction("recorded_in"),
)

leases = Table(
    "leases",
    metadata,
    Column("name", Text, primary_key=True),
    Column("holder", Text, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("expires_at", DateTime(timezone=True), nullable=False),
    Column("seconds", Double, nullable=False, server_default="30"),
)

refits = Table(
    "refits",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("state", Text, nullable=False),
    Column("trigger", Text, nullable=False),
    Column("requested_by", Text, nullable=False),
    Column("accept_exclusions", Boolean, nullable=False, server_default="false"),
    timestamp("requested_at"),
    timestamp("started_at", nullable=True),
    timestamp("finished_at", nullable=True),
    Column("epoch", BigInteger),
    Column("progress", Double),
    timestamp("cancel_requested_at", nullable=True),
    Column("seconds", JSONB, nullable=False, server_default="{}"),
    Column("detail", Text),
    CheckConstraint(
        "state IN ('queued', 'reading', 'fitting', 'publishing', 'done', 'failed', 'superseded', 'needs_review', "
        "'cancelled')",
        name="state_known",
    ),
    Index("ix_refits_requested_at", "requested_at"),
)

decisions = Table(
    "decisions",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("annotator_id", Integer, ForeignKey("annotators.id"), nullable=False, index=True),
    Column("action", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("decided_by", Text, nullable=False),
    timestamp("decided_at"),
    transaction("recorded_in"),
    Column("snapshot_id", Uuid, ForeignKey("snapshots.id")),
    Column("ability", Double),
    Column("se", Double),
    CheckConstraint("action IN ('exclude', 'reinstate', 'trust', 'dismiss', 'withdraw')", name="action_known"),
    CheckConstraint("length(reason) > 0", name="reason_given"),
)

appeals = Table(
    "appeals",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("annotator_id", Integer, ForeignKey("annotators.id"), nullable=False, index=True),
    Column("note", Text, nullable=False),
    Column("submitted_by", Text, nullable=False),
    timestamp("submitted_at"),
    CheckConstraint("length(note) > 0", name="note_given"),
)
