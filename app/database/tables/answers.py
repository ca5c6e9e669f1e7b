"""Prompts and the models' answers to them, and the doors through which people vote on them.

The text of an answer never changes. Replacing an answer withdraws it and adds another row, so that a battle names
exactly the texts that were shown. `html` is what voters see, and null until the text is rendered. A version that
renders otherwise sets it to null.
"""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKey,
    Identity,
    Index,
    Integer,
    Text,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from app.database.tables.columns import table, timestamp

prompts = table(
    "prompts",
    Column("id", Integer, Identity(), primary_key=True),
    Column("public_id", Uuid, nullable=False, unique=True),  # of the text: the same text again is no second prompt
    Column("text", Text, nullable=False),
    *(Column(name, Text) for name in ("language", "category", "reference")),
    timestamp("created_at"),
    Column("html", Text),
    Index("ix_prompts_unrendered", "id", postgresql_where=text("html IS NULL")),
)

answers = table(
    "answers",
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("prompt_id", Integer, ForeignKey("prompts.id"), nullable=False),
    Column("model_id", Integer, ForeignKey("models.id"), nullable=False),
    Column("text", Text, nullable=False),
    Column("measures", JSONB),  # name → number; votes by token have those of both answers as features
    timestamp("created_at"),
    timestamp("withdrawn_at", nullable=True),
    Column("html", Text),
    Index(
        "uq_answers_prompt_id_model_id",
        "prompt_id",
        "model_id",
        unique=True,
        postgresql_where=text("withdrawn_at IS NULL"),
    ),
    Index("ix_answers_model_id", "model_id"),
    Index("ix_answers_unrendered", "id", postgresql_where=text("html IS NULL")),
    Index("ix_answers_withdrawn_at", "withdrawn_at", postgresql_where=text("withdrawn_at IS NOT NULL")),
)

# A link, which is one annotator's, or the door that is open to everyone (annotator_id is null). Of several open doors
# the newest counts.
invitations = table(
    "invitations",
    Column("id", Uuid, primary_key=True),
    Column("annotator_id", Integer, ForeignKey("annotators.id")),
    Column("category", Text),
    Column("max_votes", Integer),
    timestamp("created_at"),
    Column("created_by", Text, nullable=False),
    timestamp("expires_at", nullable=True),
    timestamp("revoked_at", nullable=True),
    CheckConstraint("max_votes > 0", name="max_votes_positive"),
    Index("ix_invitations_annotator_id", "annotator_id"),
)
