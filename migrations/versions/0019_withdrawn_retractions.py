"""Retractions that are taken back: a row beside each. Several retractions may cover a vote; a battle may be freed."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.types import UserDefinedType

revision: str = "0019"
down_revision: str | None = "0018"
branch_labels: str | None = None
depends_on: str | None = None


class _Xid8(UserDefinedType[str]):
    cache_ok = True

    def get_col_spec(self, **_: object) -> str:
        return "xid8"


def upgrade() -> None:
    op.create_table(
        "withdrawn_retractions",
        sa.Column("retraction_id", sa.Uuid(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("withdrawn_by", sa.Text(), nullable=False),
        sa.Column("withdrawn_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
        sa.Column("recorded_in", _Xid8(), server_default=sa.text("pg_current_xact_id()"), nullable=False),
        sa.CheckConstraint("length(reason) > 0", name=op.f("ck_withdrawn_retractions_reason_given")),
        sa.ForeignKeyConstraint(
            ["retraction_id"], ["retractions.id"], name=op.f("fk_withdrawn_retractions_retraction_id")
        ),
        sa.PrimaryKeyConstraint("retraction_id", name=op.f("pk_withdrawn_retractions")),
    )
    op.create_index("ix_withdrawn_retractions_recorded_in", "withdrawn_retractions", ["recorded_in"])
    op.drop_constraint(op.f("pk_retracted_votes"), "retracted_votes")
    op.create_index(
        "uq_retracted_votes_cause",
        "retracted_votes",
        ["vote_id", "retraction_id", "replaced_by"],
        unique=True,
        postgresql_nulls_not_distinct=True,
    )
    op.drop_index("uq_votes_sealed_battle_id", "votes")
    op.create_index(
        "uq_votes_sealed_battle_id_version",
        "votes",
        ["sealed_battle_id", "version"],
        unique=True,
        postgresql_where=sa.text("sealed_battle_id IS NOT NULL"),
    )


def downgrade() -> None:
    """Forget which retractions were taken back: their votes are retracted again, by the first that covers each."""
    op.execute(
        "DELETE FROM retracted_votes AS r USING retracted_votes AS first WHERE first.vote_id = r.vote_id "
        "AND first.ctid < r.ctid"
    )
    op.drop_index("uq_retracted_votes_cause", "retracted_votes")
    op.create_primary_key(op.f("pk_retracted_votes"), "retracted_votes", ["vote_id"])
    op.drop_index("uq_votes_sealed_battle_id_version", "votes")
    op.execute(
        "UPDATE votes AS v SET sealed_battle_id = NULL WHERE sealed_battle_id IS NOT NULL AND EXISTS (SELECT FROM "
        "votes AS later WHERE later.sealed_battle_id = v.sealed_battle_id AND later.version > v.version)"
    )
    op.create_index(
        "uq_votes_sealed_battle_id",
        "votes",
        ["sealed_battle_id"],
        unique=True,
        postgresql_where=sa.text("sealed_battle_id IS NOT NULL"),
    )
    op.drop_table("withdrawn_retractions")
