"""Annotators' keys in the order of their bytes, so that their index finds keys by how they begin."""

from alembic import op

revision: str = "0015"
down_revision: str | None = "0014"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    op.execute('ALTER TABLE annotators ALTER COLUMN key TYPE text COLLATE "C"')


def downgrade() -> None:
    op.execute('ALTER TABLE annotators ALTER COLUMN key TYPE text COLLATE "default"')
