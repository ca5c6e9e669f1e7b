"""How many of the votes that count in a snapshot are sealed; null for snapshots from before."""

import sqlalchemy as sa
from alembic import op

revision: str = "0014"
down_revision: str | None = "0013"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    op.add_column("snapshots", sa.Column("votes_sealed", sa.BigInteger(), nullable=True))


def downgrade() -> None:
    op.drop_column("snapshots", "votes_sealed")
