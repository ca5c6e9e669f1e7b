"""What an answer measures, and what an annotator likes in answers."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision: str = "0036"
down_revision: str | None = "0035"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    op.add_column("answers", sa.Column("measures", JSONB()))
    op.add_column("snapshot_annotators", sa.Column("leans", JSONB()))


def downgrade() -> None:
    op.drop_column("snapshot_annotators", "leans")
    op.drop_column("answers", "measures")
