"""What an import assumed about the times in its file."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision: str = "0024"
down_revision: str | None = "0023"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    op.add_column("imports", sa.Column("notes", JSONB(), nullable=False, server_default="[]"))


def downgrade() -> None:
    op.drop_column("imports", "notes")
