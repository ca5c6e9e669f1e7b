"""No annotator gets a prompt twice with the same pair of models: held by the database.

The index is built in the migration's transaction: battles wait until it is done.
"""

import sqlalchemy as sa
from alembic import op

revision: str = "0034"
down_revision: str | None = "0033"
branch_labels: str | None = None
depends_on: str | None = None

_SHOWS = sa.text("prompt_id IS NOT NULL")


def upgrade() -> None:
    # Two processes could offer the same at the same moment: the later battle stays, but names no prompt.
    op.execute(
        """
        UPDATE battles AS later SET prompt_id = NULL, left_answer_id = NULL, right_answer_id = NULL
        FROM battles AS b
        WHERE b.prompt_id = later.prompt_id AND b.annotator_id = later.annotator_id AND b.id < later.id
            AND least(b.left_id, b.right_id) = least(later.left_id, later.right_id)
            AND greatest(b.left_id, b.right_id) = greatest(later.left_id, later.right_id)
        """
    )
    pair = [sa.text("least(left_id, right_id)"), sa.text("greatest(left_id, right_id)")]
    op.create_index(
        "uq_battles_prompt_id_annotator_id_pair",
        "battles",
        ["prompt_id", "annotator_id", *pair],
        unique=True,
        postgresql_where=_SHOWS,
    )
    op.drop_index("ix_battles_prompt_id", "battles")


def downgrade() -> None:
    op.create_index("ix_battles_prompt_id", "battles", ["prompt_id"], postgresql_where=_SHOWS)
    op.drop_index("uq_battles_prompt_id_annotator_id_pair", "battles")
