"""What the two answers of a vote measure."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision: str = "0033"
down_revision: str | None = "0032"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    op.add_column("votes", sa.Column("features", JSONB()))


def downgrade() -> None:
    op.drop_column("votes", "features")
