"""Models, annotators, battles and votes. Rows of models and annotators are never deleted; nor are battles and votes.

A vote's row never changes; only its metadata go when an annotator is erased. The columns of votes and battles that name
rows of other tables have no foreign keys, because checking them took a third of the time of bulk loads, and most
battles would lock the row of one set of candidates. Instead a trigger refuses to delete rows of those tables, and a
refit refuses a number without a row.
"""

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Date,
    DateTime,
    Double,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    SmallInteger,
    Text,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from app.database.tables.columns import table, texts, timestamp, transaction

models = table(
    "models",
    Column("id", Integer, Identity(), primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    timestamp("created_at"),
    *(Column(name, Text) for name in ("organization", "license", "link")),
    Column("released", Date),
    Column("price", Double),  # US dollars
    timestamp("archived_at", nullable=True),
    Column("archive_reason", Text),  # null: none was given
    Column("unreleased", Boolean, nullable=False, server_default="false"),  # its name is a codename, not for the public
)

annotators = table(
    "annotators",
    Column("id", Integer, Identity(), primary_key=True),
    Column("public_id", Uuid, nullable=False, unique=True),
    Column("key", Text(collation="C"), nullable=False, unique=True),
    timestamp("created_at"),
    Column("rule_standing", Text, nullable=False, server_default="pending"),
    Column("override", Text),
    Column("kind", Text),  # human or judge; null: it was not said, and counts as human
    # a dismissed flag stays closed until the ability falls below the first, or log10 of the evidence exceeds the second
    *(Column(name, Double) for name in ("dismissed_below", "dismissed_above")),
    timestamp("erased_at", nullable=True),
    CheckConstraint("rule_standing IN ('pending', 'active', 'flagged', 'excluded')", name="rule_standing_known"),
    CheckConstraint("override IN ('active', 'excluded', 'trusted')", name="override_known"),
)

model_aliases = table(
    "model_aliases",
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
model_merges = table(
    "model_merges",
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


candidate_sets = table(
    "candidate_sets",
    Column("id", Integer, Identity(), primary_key=True),
    Column("digest", LargeBinary, nullable=False, unique=True),
    Column("model_ids", ARRAY(Integer), nullable=False),
    timestamp("created_at"),
)

battles = table(
    "battles",
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
    # of a battle whose answers lie here: the prompt, the rows of `answers`, and the door of the annotator
    Column("prompt_id", Integer),
    *(Column(name, BigInteger) for name in ("left_answer_id", "right_answer_id")),
    Column("invitation_id", Uuid),
    timestamp("undo_until", nullable=True),  # of a vote that has not revealed the models
    CheckConstraint("left_id <> right_id", name="two_models"),
    CheckConstraint("propensity > 0 AND propensity <= 1", name="propensity_is_a_probability"),
    CheckConstraint("skip_reason IN ('skip', 'identity_leaked', 'failed')", name="skip_reason_known"),
    CheckConstraint("vote_id IS NULL OR skip_reason IS NULL", name="ended_once"),
    Index("ix_battles_annotator_id_id", "annotator_id", "id"),
    Index("ix_battles_created_at", "created_at", postgresql_using="brin"),
    # No annotator gets a prompt twice with the same pair, also from two processes at the same moment.
    Index(
        "uq_battles_prompt_id_annotator_id_pair",
        "prompt_id",
        "annotator_id",
        text("least(left_id, right_id)"),
        text("greatest(left_id, right_id)"),
        unique=True,
        postgresql_where=text("prompt_id IS NOT NULL"),
    ),
    Index("ix_battles_invitation_id", "invitation_id", postgresql_where=text("invitation_id IS NOT NULL")),
    postgresql_with={"fillfactor": 85},  # room for the row's next version on its page: it names no indexed column
)

service_secrets = table(
    "service_secrets",
    Column("name", Text, primary_key=True),
    Column("secret", LargeBinary, nullable=False),
    timestamp("created_at"),
)


votes = table(
    "votes",
    Column("id", Uuid, primary_key=True),
    Column("annotator_id", Integer, nullable=False),
    Column("model_a_id", Integer, nullable=False),
    Column("model_b_id", Integer, nullable=False),
    Column("outcome", SmallInteger, nullable=False),
    Column("battle_id", Text),  # of a vote without a criterion; see criterion_battle_id
    Column("voted_at", DateTime(timezone=True)),
    timestamp("received_at"),
    transaction("recorded_in"),
    Column("tags", ARRAY(Text), nullable=False, server_default="{}"),
    Column("metadata", JSONB),
    Column("features", JSONB),  # name → measures of the answers of model_a and model_b; null without any
    Column("api_key_id", Uuid),
    Column("import_id", Uuid),
    Column("version", SmallInteger, nullable=False, server_default="0"),
    Column("criterion", Text),  # the question that the vote answers; null: which answer is better overall
    Column("criterion_battle_id", Text),  # apart: the release before takes one vote on a battle from an annotator
    Column("sealed_battle_id", Uuid),  # the battle whose token cast the vote; null for a vote that names its models
    # of a ranking: groups of models, the best first; model_a_id, model_b_id and outcome are the first of its pairs
    Column("ranking", JSONB(none_as_null=True)),
    Column("prompt", BigInteger),  # the key of what the models were asked (`app.votes.prompts`); null: not known
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
        "uq_votes_criterion_battle_id_annotator_id_criterion_version",
        "criterion_battle_id",
        "annotator_id",
        "criterion",
        "version",
        unique=True,
        postgresql_where=text("criterion_battle_id IS NOT NULL"),
    ),
    Index(
        "uq_votes_sealed_battle_id_version",
        "sealed_battle_id",
        "version",
        unique=True,
        postgresql_where=text("sealed_battle_id IS NOT NULL"),
    ),
    Index("ix_votes_annotator_id", "annotator_id"),
    Index("ix_votes_criterion", "criterion", postgresql_where=text("criterion IS NOT NULL")),
    Index("ix_votes_ranked", "id", postgresql_where=text("ranking IS NOT NULL")),
    Index("ix_votes_recorded_in", "recorded_in"),
)

retractions = table(
    "retractions",
    Column("id", Uuid, primary_key=True),
    *texts("target", "target_id", "reason", "retracted_by"),
    Column("votes", BigInteger, nullable=False),
    timestamp("retracted_at"),
    Column("reason_public", Boolean, nullable=False, server_default="false"),  # who wrote it knew
    CheckConstraint("target IN ('vote', 'battle', 'model', 'annotator', 'import')", name="target_known"),
    CheckConstraint("length(reason) > 0", name="reason_given"),
)

retracted_votes = table(
    "retracted_votes",
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

withdrawn_retractions = table(
    "withdrawn_retractions",
    Column("retraction_id", Uuid, ForeignKey("retractions.id"), primary_key=True),
    *texts("reason", "withdrawn_by"),
    timestamp("withdrawn_at"),
    transaction("recorded_in"),
    CheckConstraint("length(reason) > 0", name="reason_given"),
    Index("ix_withdrawn_retractions_recorded_in", "recorded_in"),
)

idempotency_keys = table(
    "idempotency_keys",
    Column("api_key_id", Uuid, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("fingerprint", LargeBinary, nullable=False),
    Column("status", SmallInteger, nullable=False),
    Column("answer", LargeBinary, nullable=False),
    timestamp("created_at"),
    Index("ix_idempotency_keys_created_at", "created_at"),
)
