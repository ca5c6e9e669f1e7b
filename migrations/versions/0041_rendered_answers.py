"""Texts are stored as HTML too, and a vote can be taken back until it reveals its models.

Builds two indexes by reading all prompts and answers once.
"""

import sqlalchemy as sa
from alembic import op

revision: str = "0041"
down_revision: str | None = "0040"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    for table in ("prompts", "answers"):
        op.add_column(table, sa.Column("html", sa.Text()))
        op.create_index(f"ix_{table}_unrendered", table, ["id"], postgresql_where=sa.text("html IS NULL"))
    op.add_column("battles", sa.Column("undo_until", sa.DateTime(timezone=True)))


def downgrade() -> None:
    op.drop_column("battles", "undo_until")
    for table in ("answers", "prompts"):
        op.drop_index(f"ix_{table}_unrendered", table)
        op.drop_column(table, "html")
