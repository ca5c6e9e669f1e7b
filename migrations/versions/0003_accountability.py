"""What reviewers and auditors need: the audit log, appeals, webhooks, matchups, refits that can be cancelled."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision: str = "0003"
down_revision: str | None = "0002"
branch_labels: str | None = None
depends_on: str | None = None

NEW_TABLES = ("audit_log", "appeals", "webhooks", "webhook_deliveries", "snapshot_matchups")
STATES = ("queued", "reading", "fitting", "publishing", "done", "failed", "superseded", "needs_review")


def upgrade() -> None:
    _set_states((*STATES, "cancelled"))
    op.add_column("refits", sa.Column("progress", sa.Double()))
    op.add_column("refits", sa.Column("cancel_requested_at", sa.DateTime(timezone=True)))
    op.add_column("snapshots", sa.Column("crowd_pruned_at", sa.DateTime(timezone=True)))
    op.add_column("snapshot_annotators", sa.Column("evidence", JSONB()))
    _create_review()
    _create_webhooks()
    _create_matchups()


def downgrade() -> None:
    for table in reversed(NEW_TABLES):
        op.drop_table(table)
    op.drop_column("snapshot_annotators", "evidence")
    op.drop_column("snapshots", "crowd_pruned_at")
    op.drop_column("refits", "cancel_requested_at")
    op.drop_column("refits", "progress")
    op.execute("UPDATE refits SET state = 'failed' WHERE state = 'cancelled'")
    _set_states(STATES)


def _set_states(states: tuple[str, ...]) -> None:
    op.drop_constraint(op.f("ck_refits_state_known"), "refits")
    op.create_check_constraint(op.f("ck_refits_state_known"), "refits", sa.column("state").in_(states))


def _create_review() -> None:
    op.create_table(
        "audit_log",
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("happened_at", sa.DateTime(timezone=True), nullable=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("actor", "action", "subject", "detail")),
        sa.Column("previous_hash", sa.LargeBinary(), nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_audit_log")),
    )
    op.create_table(
        "appeals",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("annotator_id", sa.Integer(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("submitted_by", sa.Text(), nullable=False),
        sa.Column("submitted_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("length(note) > 0", name=op.f("ck_appeals_note_given")),
        sa.ForeignKeyConstraint(["annotator_id"], ["annotators.id"], name=op.f("fk_appeals_annotator_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_appeals")),
    )
    op.create_index(op.f("ix_appeals_annotator_id"), "appeals", ["annotator_id"])


def _create_webhooks() -> None:
    op.create_table(
        "webhooks",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("events", sa.ARRAY(sa.Text()), nullable=False),
        sa.Column("secret", sa.Text(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("deleted_at", sa.DateTime(timezone=True)),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhooks")),
    )
    op.create_table(
        "webhook_deliveries",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("webhook_id", sa.Uuid(), nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("attempts", sa.Integer(), server_default="0", nullable=False),
        sa.Column("next_attempt_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True)),
        sa.Column("status", sa.Text(), server_default="waiting", nullable=False),
        sa.Column("detail", sa.Text()),
        sa.CheckConstraint(
            "status IN ('waiting', 'delivered', 'given_up')", name=op.f("ck_webhook_deliveries_status_known")
        ),
        sa.ForeignKeyConstraint(["webhook_id"], ["webhooks.id"], name=op.f("fk_webhook_deliveries_webhook_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhook_deliveries")),
    )
    op.create_index(op.f("ix_webhook_deliveries_webhook_id"), "webhook_deliveries", ["webhook_id"])
    op.create_index(
        "ix_webhook_deliveries_next_attempt_at",
        "webhook_deliveries",
        ["next_attempt_at"],
        postgresql_where=sa.text("status = 'waiting'"),
    )


def _create_matchups() -> None:
    op.create_table(
        "snapshot_matchups",
        sa.Column("snapshot_id", sa.Uuid(), nullable=False),
        sa.Column("model_a_id", sa.Integer(), nullable=False),
        sa.Column("model_b_id", sa.Integer(), nullable=False),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in ("wins_a", "ties", "wins_b")),
        *(sa.Column(name, sa.Double()) for name in ("predicted", "lower", "upper")),
        sa.CheckConstraint("model_a_id < model_b_id", name=op.f("ck_snapshot_matchups_models_in_order")),
        sa.ForeignKeyConstraint(["snapshot_id"], ["snapshots.id"], name=op.f("fk_snapshot_matchups_snapshot_id")),
        sa.ForeignKeyConstraint(["model_a_id"], ["models.id"], name=op.f("fk_snapshot_matchups_model_a_id")),
        sa.ForeignKeyConstraint(["model_b_id"], ["models.id"], name=op.f("fk_snapshot_matchups_model_b_id")),
        sa.PrimaryKeyConstraint("snapshot_id", "model_a_id", "model_b_id", name=op.f("pk_snapshot_matchups")),
    )
