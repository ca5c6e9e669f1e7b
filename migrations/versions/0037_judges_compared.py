"""How the judges of a snapshot follow its people. Adds a column without a default: nothing waits."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision: str = "0037"
down_revision: str | None = "0036"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    op.add_column("snapshot_fragility", sa.Column("judges", JSONB()))


def downgrade() -> None:
    op.drop_column("snapshot_fragility", "judges")
