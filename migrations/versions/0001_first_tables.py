"""The first tables, and the policy of defaults."""

import json

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.types import UserDefinedType

revision: str = "0001"
down_revision: str | None = None
branch_labels: str | None = None
depends_on: str | None = None

TABLES = (
    "api_keys",
    "models",
    "annotators",
    "imports",
    "votes",
    "policies",
    "leases",
    "refits",
    "snapshots",
    "snapshot_models",
    "snapshot_annotators",
    "decisions",
)

# As they were when this migration was written: later defaults come as later policy versions.
FIRST_POLICY = {
    "min_votes": 50,
    "min_ability": 0.2,
    "ability_cap": 1.75,
    "prior_sd": "estimated",
    "on_low_ability": "flag",
    "max_excluded_share": 0.1,
    "interval": "clustered",
    "base": 1000.0,
    "refit_interval_seconds": 600,
    "refit_after_votes": None,
}


class _Xid8(UserDefinedType[str]):
    cache_ok = True

    def get_col_spec(self, **_: object) -> str:
        return "xid8"


def upgrade() -> None:
    _create_votes()
    _create_loop()
    _create_snapshots()
    policy = sa.text(
        "INSERT INTO policies (settings, reason, created_by) VALUES (CAST(:settings AS jsonb), 'defaults', 'migration')"
    )
    op.execute(policy.bindparams(settings=json.dumps(FIRST_POLICY)))


def downgrade() -> None:
    for table in reversed(TABLES):
        op.drop_table(table)


def _create_votes() -> None:
    op.create_table(
        "api_keys",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("prefix", sa.Text(), nullable=False),
        sa.Column("secret_hash", sa.LargeBinary(), nullable=False),
        sa.Column("scopes", sa.ARRAY(sa.Text()), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_keys")),
        sa.UniqueConstraint("prefix", name=op.f("uq_api_keys_prefix")),
    )
    op.create_table(
        "models",
        sa.Column("id", sa.Integer(), sa.Identity(always=False), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_models")),
        sa.UniqueConstraint("name", name=op.f("uq_models_name")),
    )
    op.create_table(
        "annotators",
        sa.Column("id", sa.Integer(), sa.Identity(always=False), nullable=False),
        sa.Column("public_id", sa.Uuid(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("rule_standing", sa.Text(), server_default="pending", nullable=False),
        sa.Column("override", sa.Text(), nullable=True),
        sa.Column("dismissed_below", sa.Double(), nullable=True),
        sa.CheckConstraint("override IN ('active', 'excluded', 'trusted')", name=op.f("ck_annotators_override_known")),
        sa.CheckConstraint(
            "rule_standing IN ('pending', 'active', 'flagged', 'excluded')",
            name=op.f("ck_annotators_rule_standing_known"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_annotators")),
        sa.UniqueConstraint("key", name=op.f("uq_annotators_key")),
        sa.UniqueConstraint("public_id", name=op.f("uq_annotators_public_id")),
    )
    op.create_table(
        "imports",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("file_name", sa.Text(), nullable=False),
        sa.Column("sha256", sa.LargeBinary(), nullable=False),
        sa.Column("counts", JSONB(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_imports")),
    )
    op.create_index(op.f("ix_imports_sha256"), "imports", ["sha256"], unique=False)
    op.create_table(
        "votes",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("annotator_id", sa.Integer(), nullable=False),
        sa.Column("model_a_id", sa.Integer(), nullable=False),
        sa.Column("model_b_id", sa.Integer(), nullable=False),
        sa.Column("outcome", sa.SmallInteger(), nullable=False),
        sa.Column("battle_id", sa.Text(), nullable=True),
        sa.Column("voted_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("received_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("recorded_in", _Xid8(), server_default=sa.text("pg_current_xact_id()"), nullable=False),
        sa.Column("tags", sa.ARRAY(sa.Text()), server_default="{}", nullable=False),
        sa.Column("metadata", JSONB(), nullable=True),
        sa.Column("api_key_id", sa.Uuid(), nullable=True),
        sa.Column("import_id", sa.Uuid(), nullable=True),
        sa.CheckConstraint("model_a_id <> model_b_id", name=op.f("ck_votes_two_models")),
        sa.CheckConstraint("outcome BETWEEN 0 AND 3", name=op.f("ck_votes_outcome_known")),
        sa.ForeignKeyConstraint(["annotator_id"], ["annotators.id"], name=op.f("fk_votes_annotator_id")),
        sa.ForeignKeyConstraint(["api_key_id"], ["api_keys.id"], name=op.f("fk_votes_api_key_id")),
        sa.ForeignKeyConstraint(["import_id"], ["imports.id"], name=op.f("fk_votes_import_id")),
        sa.ForeignKeyConstraint(["model_a_id"], ["models.id"], name=op.f("fk_votes_model_a_id")),
        sa.ForeignKeyConstraint(["model_b_id"], ["models.id"], name=op.f("fk_votes_model_b_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_votes")),
    )
    op.create_index("ix_votes_annotator_id", "votes", ["annotator_id"], unique=False)
    op.create_index("ix_votes_recorded_in", "votes", ["recorded_in"], unique=False)
    op.create_index(
        "uq_votes_battle_id_annotator_id",
        "votes",
        ["battle_id", "annotator_id"],
        unique=True,
        postgresql_where=sa.text("battle_id IS NOT NULL"),
    )


def _create_loop() -> None:
    op.create_table(
        "policies",
        sa.Column("version", sa.Integer(), sa.Identity(always=False), nullable=False),
        sa.Column("settings", JSONB(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("recorded_in", _Xid8(), server_default=sa.text("pg_current_xact_id()"), nullable=False),
        sa.PrimaryKeyConstraint("version", name=op.f("pk_policies")),
    )
    op.create_table(
        "leases",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_leases")),
    )
    op.create_table(
        "refits",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("trigger", sa.Text(), nullable=False),
        sa.Column("requested_by", sa.Text(), nullable=False),
        sa.Column("accept_exclusions", sa.Boolean(), server_default="false", nullable=False),
        sa.Column("requested_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("epoch", sa.BigInteger(), nullable=True),
        sa.Column("seconds", JSONB(), server_default="{}", nullable=False),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "state IN ('queued', 'reading', 'fitting', 'publishing', 'done', 'failed', 'superseded', 'needs_review')",
            name=op.f("ck_refits_state_known"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_refits")),
    )
    op.create_index("ix_refits_requested_at", "refits", ["requested_at"], unique=False)


def _create_snapshots() -> None:
    op.create_table(
        "snapshots",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("number", sa.Integer(), sa.Identity(always=False), nullable=False),
        sa.Column("refit_id", sa.Uuid(), nullable=False),
        sa.Column("policy_version", sa.Integer(), nullable=False),
        sa.Column("published_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("settings", JSONB(), nullable=False),
        sa.Column("diagnostics", JSONB(), nullable=False),
        sa.Column("votes_read", sa.BigInteger(), nullable=False),
        sa.Column("votes_used", sa.BigInteger(), nullable=False),
        sa.Column("vote_set", sa.Text(), nullable=False),
        sa.Column("votes_hash", sa.Text(), nullable=False),
        sa.Column("code_version", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["policy_version"], ["policies.version"], name=op.f("fk_snapshots_policy_version")),
        sa.ForeignKeyConstraint(["refit_id"], ["refits.id"], name=op.f("fk_snapshots_refit_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_snapshots")),
        sa.UniqueConstraint("number", name=op.f("uq_snapshots_number")),
        sa.UniqueConstraint("refit_id", name=op.f("uq_snapshots_refit_id")),
    )
    op.create_table(
        "snapshot_models",
        sa.Column("snapshot_id", sa.Uuid(), nullable=False),
        sa.Column("method", sa.Text(), nullable=False),
        sa.Column("model_id", sa.Integer(), nullable=False),
        sa.Column("score", sa.Double(), nullable=True),
        sa.Column("se", sa.Double(), nullable=True),
        sa.Column("lower", sa.Double(), nullable=True),
        sa.Column("upper", sa.Double(), nullable=True),
        sa.Column("rank", sa.Integer(), nullable=True),
        sa.Column("best_rank", sa.Integer(), nullable=True),
        sa.Column("worst_rank", sa.Integer(), nullable=True),
        sa.Column("votes", sa.BigInteger(), nullable=False),
        sa.Column("wins", sa.BigInteger(), nullable=False),
        sa.Column("ties", sa.BigInteger(), nullable=False),
        sa.Column("losses", sa.BigInteger(), nullable=False),
        sa.Column("component", sa.Integer(), nullable=False),
        sa.Column("identified", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["model_id"], ["models.id"], name=op.f("fk_snapshot_models_model_id")),
        sa.ForeignKeyConstraint(["snapshot_id"], ["snapshots.id"], name=op.f("fk_snapshot_models_snapshot_id")),
        sa.PrimaryKeyConstraint("snapshot_id", "method", "model_id", name=op.f("pk_snapshot_models")),
    )
    op.create_table(
        "snapshot_annotators",
        sa.Column("snapshot_id", sa.Uuid(), nullable=False),
        sa.Column("annotator_id", sa.Integer(), nullable=False),
        sa.Column("ability", sa.Double(), nullable=True),
        sa.Column("se", sa.Double(), nullable=True),
        sa.Column("shadow_ability", sa.Double(), nullable=True),
        sa.Column("shadow_se", sa.Double(), nullable=True),
        sa.Column("probability_low", sa.Double(), nullable=True),
        sa.Column("votes", sa.BigInteger(), nullable=False),
        sa.Column("rule_standing", sa.Text(), nullable=False),
        sa.Column("standing", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["annotator_id"], ["annotators.id"], name=op.f("fk_snapshot_annotators_annotator_id")),
        sa.ForeignKeyConstraint(["snapshot_id"], ["snapshots.id"], name=op.f("fk_snapshot_annotators_snapshot_id")),
        sa.PrimaryKeyConstraint("snapshot_id", "annotator_id", name=op.f("pk_snapshot_annotators")),
    )
    op.create_index("ix_snapshot_annotators_annotator_id", "snapshot_annotators", ["annotator_id"], unique=False)
    op.create_table(
        "decisions",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("annotator_id", sa.Integer(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("decided_by", sa.Text(), nullable=False),
        sa.Column("decided_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("recorded_in", _Xid8(), server_default=sa.text("pg_current_xact_id()"), nullable=False),
        sa.Column("snapshot_id", sa.Uuid(), nullable=True),
        sa.Column("ability", sa.Double(), nullable=True),
        sa.Column("se", sa.Double(), nullable=True),
        sa.CheckConstraint(
            "action IN ('exclude', 'reinstate', 'trust', 'dismiss', 'withdraw')", name=op.f("ck_decisions_action_known")
        ),
        sa.CheckConstraint("length(reason) > 0", name=op.f("ck_decisions_reason_given")),
        sa.ForeignKeyConstraint(["annotator_id"], ["annotators.id"], name=op.f("fk_decisions_annotator_id")),
        sa.ForeignKeyConstraint(["snapshot_id"], ["snapshots.id"], name=op.f("fk_decisions_snapshot_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_decisions")),
    )
    op.create_index(op.f("ix_decisions_annotator_id"), "decisions", ["annotator_id"], unique=False)
