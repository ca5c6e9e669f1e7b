"""Models and annotators. Rows are never deleted; votes name them by number."""

from sqlalchemy import CheckConstraint, Column, Date, Double, ForeignKey, Identity, Integer, Table, Text, Uuid

from app.database.tables.columns import metadata, timestamp, transaction

models = Table(
    "models",
    metadata,
    Column("id", Integer, Identity(), primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    timestamp("created_at"),
    *(Column(name, Text) for name in ("organization", "license", "link")),
    Column("released", Date),
    timestamp("archived_at", nullable=True),
)

annotators = Table(
    "annotators",
    metadata,
    Column("id", Integer, Identity(), primary_key=True),
    Column("public_id", Uuid, nullable=False, unique=True),
    Column("key", Text(collation="C"), nullable=False, unique=True),
    timestamp("created_at"),
    Column("rule_standing", Text, nullable=False, server_default="pending"),
    Column("override", Text),
    # a dismissed flag stays closed until the ability falls below the first, or log10 of the evidence exceeds the second
    *(Column(name, Double) for name in ("dismissed_below", "dismissed_above")),
    timestamp("erased_at", nullable=True),
    CheckConstraint("rule_standing IN ('pending', 'active', 'flagged', 'excluded')", name="rule_standing_known"),
    CheckConstraint("override IN ('active', 'excluded', 'trusted')", name="override_known"),
)

model_aliases = Table(
    "model_aliases",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("name", Text, nullable=False, index=True),
    Column("model_id", Integer, ForeignKey("models.id"), nullable=False, index=True),
    timestamp("valid_from", nullable=True),
    timestamp("valid_until", nullable=True),
    Column("created_by", Text, nullable=False),
    timestamp("created_at"),
    CheckConstraint("valid_from < valid_until", name="period_in_order"),
)

# The votes on model_id that were cast before a time (null: all) count for into_id; null: for model_id again. The last
# row of a model and time holds. No row is ever changed.
model_merges = Table(
    "model_merges",
    metadata,
    Column("id", Integer, Identity(), primary_key=True),
    Column("model_id", Integer, ForeignKey("models.id"), nullable=False),
    timestamp("before", nullable=True),
    Column("into_id", Integer, ForeignKey("models.id")),
    Column("reason", Text),
    Column("recorded_by", Text, nullable=False),
    timestamp("recorded_at"),
    transaction("recorded_in"),
    CheckConstraint("model_id <> into_id", name="two_models"),
)
