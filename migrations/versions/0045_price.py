"""What a model costs; null where it is not known."""

import sqlalchemy as sa
from alembic import op

revision: str = "0045"
down_revision: str | None = "0044"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    op.add_column("models", sa.Column("price", sa.Double()))


def downgrade() -> None:
    op.drop_column("models", "price")
