"""How many provisional models a leaderboard's confidence leaves out."""

import sqlalchemy as sa
from alembic import op

revision: str = "0023"
down_revision: str | None = "0022"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    op.add_column("snapshot_confidence", sa.Column("provisional", sa.Integer(), nullable=False, server_default="0"))


def downgrade() -> None:
    op.drop_column("snapshot_confidence", "provisional")
