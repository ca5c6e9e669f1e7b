"""How long a lease runs, to tell one that was taken while the clock was ahead."""

import sqlalchemy as sa
from alembic import op

revision: str = "0026"
down_revision: str | None = "0025"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    op.add_column("leases", sa.Column("seconds", sa.Double(), nullable=False, server_default="30"))


def downgrade() -> None:
    op.drop_column("leases", "seconds")
