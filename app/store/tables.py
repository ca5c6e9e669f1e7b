"""The tables, as SQLAlchemy Core sees them. `migrations/` creates them; a test holds the two together."""

from sqlalchemy import (
    ARRAY,
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
    LargeBinary,
    MetaData,
    SmallInteger,
    Table,
    Text,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.types import UserDefinedType

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


class Xid8(UserDefinedType[str]):
    """PostgreSQL's 64-bit transaction id: says exactly which votes a database snapshot saw."""

    cache_ok = True

    def get_col_spec(self, **_: object) -> str:
        """Return the type's name in SQL."""
        return "xid8"


def _moment(name: str, *, nullable: bool = False) -> Column[object]:
    default = None if nullable else text("now()")
    return Column(name, DateTime(timezone=True), nullable=nullable, server_default=default)


def _transaction(name: str, *, nullable: bool = False) -> Column[str]:
    default = None if nullable else text("pg_current_xact_id()")
    return Column(name, Xid8(), nullable=nullable, server_default=default)


api_keys = Table(
    "api_keys",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("name", Text, nullable=False),
    Column("prefix", Text, nullable=False, unique=True),
    Column("secret_hash", LargeBinary, nullable=False),
    Column("scopes", ARRAY(Text), nullable=False),
    _moment("created_at"),
    _moment("revoked_at", nullable=True),
)

models = Table(
    "models",
    metadata,
    Column("id", Integer, Identity(), primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    _moment("created_at"),
)

annotators = Table(
    "annotators",
    metadata,
    Column("id", Integer, Identity(), primary_key=True),
    Column("public_id", Uuid, nullable=False, unique=True),
    Column("key", Text, nullable=False, unique=True),
    _moment("created_at"),
    Column("rule_standing", Text, nullable=False, server_default="pending"),
    Column("override", Text),
    Column("dismissed_below", Double),
    CheckConstraint("rule_standing IN ('pending', 'active', 'flagged', 'excluded')", name="rule_standing_known"),
    CheckConstraint("override IN ('active', 'excluded', 'trusted')", name="override_known"),
)

imports = Table(
    "imports",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("file_name", Text, nullable=False),
    Column("sha256", LargeBinary, nullable=False, index=True),
    Column("counts", JSONB, nullable=False),
    _moment("created_at"),
)

votes = Table(
    "votes",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("annotator_id", Integer, ForeignKey("annotators.id"), nullable=False),
    Column("model_a_id", Integer, ForeignKey("models.id"), nullable=False),
    Column("model_b_id", Integer, ForeignKey("models.id"), nullable=False),
    Column("outcome", SmallInteger, nullable=False),
    Column("battle_id", Text),
    Column("voted_at", DateTime(timezone=True)),
    _moment("received_at"),
    _transaction("recorded_in"),
    Column("tags", ARRAY(Text), nullable=False, server_default="{}"),
    Column("metadata", JSONB),
    Column("api_key_id", Uuid, ForeignKey("api_keys.id")),
    Column("import_id", Uuid, ForeignKey("imports.id")),
    CheckConstraint("model_a_id <> model_b_id", name="two_models"),
    CheckConstraint("outcome BETWEEN 0 AND 3", name="outcome_known"),
    Index(
        "uq_votes_battle_id_annotator_id",
        "battle_id",
        "annotator_id",
        unique=True,
        postgresql_where=text("battle_id IS NOT NULL"),
    ),
    Index("ix_votes_annotator_id", "annotator_id"),
    Index("ix_votes_recorded_in", "recorded_in"),
)

policies = Table(
    "policies",
    metadata,
    Column("version", Integer, Identity(), primary_key=True),
    Column("settings", JSONB, nullable=False),
    Column("reason", Text, nullable=False),
    Column("created_by", Text, nullable=False),
    _moment("created_at"),
    _transaction("recorded_in"),
)

leases = Table(
    "leases",
    metadata,
    Column("name", Text, primary_key=True),
    Column("holder", Text, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("expires_at", DateTime(timezone=True), nullable=False),
)

refits = Table(
    "refits",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("state", Text, nullable=False),
    Column("trigger", Text, nullable=False),
    Column("requested_by", Text, nullable=False),
    Column("accept_exclusions", Boolean, nullable=False, server_default="false"),
    _moment("requested_at"),
    _moment("started_at", nullable=True),
    _moment("finished_at", nullable=True),
    Column("epoch", BigInteger),
    Column("seconds", JSONB, nullable=False, server_default="{}"),
    Column("detail", Text),
    CheckConstraint(
        "state IN ('queued', 'reading', 'fitting', 'publishing', 'done', 'failed', 'superseded', 'needs_review')",
        name="state_known",
    ),
    Index("ix_refits_requested_at", "requested_at"),
)

snapshots = Table(
    "snapshots",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("number", Integer, Identity(), nullable=False, unique=True),
    Column("refit_id", Uuid, ForeignKey("refits.id"), nullable=False, unique=True),
    Column("policy_version", Integer, ForeignKey("policies.version"), nullable=False),
    _moment("published_at"),
    Column("settings", JSONB, nullable=False),
    Column("diagnostics", JSONB, nullable=False),
    Column("votes_read", BigInteger, nullable=False),
    Column("votes_used", BigInteger, nullable=False),
    Column("vote_set", Text, nullable=False),
    Column("votes_hash", Text, nullable=False),
    Column("code_version", Text, nullable=False),
)

snapshot_models = Table(
    "snapshot_models",
    metadata,
    Column("snapshot_id", Uuid, ForeignKey("snapshots.id"), primary_key=True),
    Column("method", Text, primary_key=True),
    Column("model_id", Integer, ForeignKey("models.id"), primary_key=True),
    *(Column(name, Double) for name in ("score", "se", "lower", "upper")),
    *(Column(name, Integer) for name in ("rank", "best_rank", "worst_rank")),
    *(Column(name, BigInteger, nullable=False) for name in ("votes", "wins", "ties", "losses")),
    Column("component", Integer, nullable=False),
    Column("identified", Boolean, nullable=False),
)

snapshot_annotators = Table(
    "snapshot_annotators",
    metadata,
    Column("snapshot_id", Uuid, ForeignKey("snapshots.id"), primary_key=True),
    Column("annotator_id", Integer, ForeignKey("annotators.id"), primary_key=True),
    *(Column(name, Double) for name in ("ability", "se", "shadow_ability", "shadow_se", "probability_low")),
    Column("votes", BigInteger, nullable=False),
    Column("rule_standing", Text, nullable=False),
    Column("standing", Text, nullable=False),
    Index("ix_snapshot_annotators_annotator_id", "annotator_id"),
)

decisions = Table(
    "decisions",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("annotator_id", Integer, ForeignKey("annotators.id"), nullable=False, index=True),
    Column("action", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("decided_by", Text, nullable=False),
    _moment("decided_at"),
    _transaction("recorded_in"),
    Column("snapshot_id", Uuid, ForeignKey("snapshots.id")),
    Column("ability", Double),
    Column("se", Double),
    CheckConstraint("action IN ('exclude', 'reinstate', 'trust', 'dismiss', 'withdraw')", name="action_known"),
    CheckConstraint("length(reason) > 0", name="reason_given"),
)
