"""Links and an open door, through which people vote on the answers that lie here."""

import sqlalchemy as sa
from alembic import op

revision: str = "0030"
down_revision: str | None = "0029"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    op.create_table(
        "invitations",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("annotator_id", sa.Integer()),
        sa.Column("category", sa.Text()),
        sa.Column("max_votes", sa.Integer()),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True)),
        sa.Column("revoked_at", sa.DateTime(timezone=True)),
        sa.PrimaryKeyConstraint("id", name="pk_invitations"),
        sa.ForeignKeyConstraint(["annotator_id"], ["annotators.id"], name="fk_invitations_annotator_id"),
        sa.CheckConstraint("max_votes > 0", name="ck_invitations_max_votes_positive"),
    )
    op.create_index("ix_invitations_annotator_id", "invitations", ["annotator_id"])
    op.add_column("battles", sa.Column("invitation_id", sa.Uuid()))
    op.create_index(
        "ix_battles_invitation_id",
        "battles",
        ["invitation_id"],
        postgresql_where=sa.text("invitation_id IS NOT NULL"),
    )


def downgrade() -> None:
    op.drop_index("ix_battles_invitation_id", "battles")
    op.drop_column("battles", "invitation_id")
    op.drop_table("invitations")
