"""Prompts and answers that lie here; a battle may name those that it showed."""

import sqlalchemy as sa
from alembic import op

revision: str = "0029"
down_revision: str | None = "0028"
branch_labels: str | None = None
depends_on: str | None = None

_NOW = sa.text("now()")


def upgrade() -> None:
    op.create_table(
        "prompts",
        sa.Column("id", sa.Integer(), sa.Identity(), nullable=False),
        sa.Column("public_id", sa.Uuid(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("language", sa.Text()),
        sa.Column("category", sa.Text()),
        sa.Column("reference", sa.Text()),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=_NOW, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_prompts"),
        sa.UniqueConstraint("public_id", name="uq_prompts_public_id"),
    )
    op.create_table(
        "answers",
        sa.Column("id", sa.BigInteger(), sa.Identity(), nullable=False),
        sa.Column("prompt_id", sa.Integer(), nullable=False),
        sa.Column("model_id", sa.Integer(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=_NOW, nullable=False),
        sa.Column("withdrawn_at", sa.DateTime(timezone=True)),
        sa.PrimaryKeyConstraint("id", name="pk_answers"),
        sa.ForeignKeyConstraint(["prompt_id"], ["prompts.id"], name="fk_answers_prompt_id"),
        sa.ForeignKeyConstraint(["model_id"], ["models.id"], name="fk_answers_model_id"),
    )
    current, withdrawn = sa.text("withdrawn_at IS NULL"), sa.text("withdrawn_at IS NOT NULL")
    op.create_index(
        "uq_answers_prompt_id_model_id", "answers", ["prompt_id", "model_id"], unique=True, postgresql_where=current
    )
    op.create_index("ix_answers_model_id", "answers", ["model_id"])
    op.create_index("ix_answers_withdrawn_at", "answers", ["withdrawn_at"], postgresql_where=withdrawn)
    op.add_column("battles", sa.Column("prompt_id", sa.Integer()))
    op.add_column("battles", sa.Column("left_answer_id", sa.BigInteger()))
    op.add_column("battles", sa.Column("right_answer_id", sa.BigInteger()))
    op.create_index("ix_battles_prompt_id", "battles", ["prompt_id"], postgresql_where=sa.text("prompt_id IS NOT NULL"))

    op.drop_constraint("ck_exports_what_known", "exports")
    op.create_check_constraint(
        op.f("ck_exports_what_known"), "exports", "what IN ('votes', 'annotators', 'leaderboard', 'answers')"
    )


def downgrade() -> None:
    # Not validated: an export of answers stays on record, although the earlier version cannot name it.
    op.drop_constraint("ck_exports_what_known", "exports")
    op.create_check_constraint(
        op.f("ck_exports_what_known"),
        "exports",
        "what IN ('votes', 'annotators', 'leaderboard')",
        postgresql_not_valid=True,
    )
    op.drop_index("ix_battles_prompt_id", "battles")
    for column in ("right_answer_id", "left_answer_id", "prompt_id"):
        op.drop_column("battles", column)
    op.drop_table("answers")
    op.drop_table("prompts")
