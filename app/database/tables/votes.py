"""Votes, retractions and replacements. A vote's row never changes; only its metadata go when an annotator is erased.

The columns that name a model, an annotator, a key or an import have no foreign keys, because checking them took a
third of the time of bulk loads. Instead a trigger refuses to delete rows of those tables, and a refit refuses a number
without a row.
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
    SmallInteger,
    Table,
    Text,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from app.database.tables.columns import metadata, timestamp, transaction

votes = Table(
    "votes",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("annotator_id", Integer, nullable=False),
    Column("model_a_id", Integer, nullable=False),
    Column("model_b_id", Integer, nullable=False),
    Column("outcome", SmallInteger, nullable=False),
    Column("battle_id", Text),
    Column("voted_at", DateTime(timezone=True)),
    timestamp("received_at"),
    transaction("recorded_in"),
    Column("tags", ARRAY(Text), nullable=False, server_default="{}"),
    Column("metadata", JSONB),
    Column("api_key_id", Uuid),
    Column("import_id", Uuid),
    Column("version", SmallInteger, nullable=False, server_default="0"),
    Column("sealed_battle_id", Uuid),  # the battle whose token cast the vote; null for a vote that names its models
    CheckConstraint("model_a_id <> model_b_id", name="two_models"),
    CheckConstraint("outcome BETWEEN 0 AND 3", name="outcome_known"),
    Index(
        "uq_votes_battle_id_annotator_id_version",
        "battle_id",
        "annotator_id",
        "version",
        unique=True,
        postgresql_where=text("battle_id IS NOT NULL"),
    ),
    Index(
        "uq_votes_sealed_battle_id_version",
        "sealed_battle_id",
        "version",
        unique=True,
        postgresql_where=text("sealed_battle_id IS NOT NULL"),
    ),
    Index("ix_votes_annotator_id", "annotator_id"),
    Index("ix_votes_recorded_in", "recorded_in"),
)

retractions = Table(
    "retractions",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("target", Text, nullable=False),
    Column("target_id", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("retracted_by", Text, nullable=False),
    Column("votes", BigInteger, nullable=False),
    timestamp("retracted_at"),
    CheckConstraint("target IN ('vote', 'battle', 'model', 'annotator', 'import')", name="target_known"),
    CheckConstraint("length(reason) > 0", name="reason_given"),
)

retracted_votes = Table(
    "retracted_votes",
    metadata,
    Column("vote_id", Uuid, nullable=False),
    Column("retraction_id", Uuid, ForeignKey("retractions.id")),
    Column("replaced_by", Uuid),
    transaction("recorded_in"),
    CheckConstraint("(retraction_id IS NULL) <> (replaced_by IS NULL)", name="one_cause"),
    Index(
        "uq_retracted_votes_cause",
        "vote_id",
        "retraction_id",
        "replaced_by",
        unique=True,
        postgresql_nulls_not_distinct=True,
    ),
    Index("ix_retracted_votes_recorded_in", "recorded_in"),
)

withdrawn_retractions = Table(
    "withdrawn_retractions",
    metadata,
    Column("retraction_id", Uuid, ForeignKey("retractions.id"), primary_key=True),
    Column("reason", Text, nullable=False),
    Column("withdrawn_by", Text, nullable=False),
    timestamp("withdrawn_at"),
    transaction("recorded_in"),
    CheckConstraint("length(reason) > 0", name="reason_given"),
    Index("ix_withdrawn_retractions_recorded_in", "recorded_in"),
)

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("api_key_id", Uuid, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("fingerprint", LargeBinary, nullable=False),
    Column("status", SmallInteger, nullable=False),
    Column("answer", LargeBinary, nullable=False),
    timestamp("created_at"),
    Index("ix_idempotency_keys_created_at", "created_at"),
)
