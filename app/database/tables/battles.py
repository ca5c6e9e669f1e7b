"""Battles that the service drew. Like votes they are never deleted; a battle ends once, by a vote or by a skip.

The columns that name rows of other tables have no foreign keys, as those of votes. Most battles name the same set of
candidates, and each would lock its row.
"""

from sqlalchemy import (
    ARRAY,
    CheckConstraint,
    Column,
    DateTime,
    Double,
    Identity,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    Uuid,
)

from app.database.tables.columns import metadata, timestamp

candidate_sets = Table(
    "candidate_sets",
    metadata,
    Column("id", Integer, Identity(), primary_key=True),
    Column("digest", LargeBinary, nullable=False, unique=True),
    Column("model_ids", ARRAY(Integer), nullable=False),
    timestamp("created_at"),
)

battles = Table(
    "battles",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("annotator_id", Integer, nullable=False),
    Column("left_id", Integer, nullable=False),
    Column("right_id", Integer, nullable=False),
    Column("candidate_set_id", Integer, nullable=False),
    Column("tags", ARRAY(Text), nullable=False, server_default="{}"),
    Column("drawn_by", Text, nullable=False),
    Column("propensity", Double, nullable=False),
    Column("snapshot_id", Uuid),
    Column("policy_version", Integer, nullable=False),
    Column("api_key_id", Uuid),
    timestamp("created_at"),
    Column("expires_at", DateTime(timezone=True), nullable=False),
    Column("vote_id", Uuid),
    Column("skip_reason", Text),
    timestamp("ended_at", nullable=True),
    CheckConstraint("left_id <> right_id", name="two_models"),
    CheckConstraint("propensity > 0 AND propensity <= 1", name="propensity_is_a_probability"),
    CheckConstraint("skip_reason IN ('skip', 'identity_leaked', 'failed')", name="skip_reason_known"),
    CheckConstraint("vote_id IS NULL OR skip_reason IS NULL", name="ended_once"),
    Index("ix_battles_annotator_id_id", "annotator_id", "id"),
    Index("ix_battles_created_at", "created_at", postgresql_using="brin"),
    postgresql_with={"fillfactor": 85},  # room for the row's next version on its page: it names no indexed column
)

service_secrets = Table(
    "service_secrets",
    metadata,
    Column("name", Text, primary_key=True),
    Column("secret", LargeBinary, nullable=False),
    timestamp("created_at"),
)
