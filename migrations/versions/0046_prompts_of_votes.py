"""What the models of a vote were asked, as a key; of votes on hosted answers it is that of their battle's prompt."""

import sqlalchemy as sa
from alembic import op

revision: str = "0046"
down_revision: str | None = "0045"
branch_labels: str | None = None
depends_on: str | None = None

# The key of `app.votes.prompts` when this was written.
_FILL = """
UPDATE votes SET prompt = ('x' || encode(
    substring(sha256(convert_to(btrim(prompts.text, E' \\t\\n\\r\\x0b\\x0c'), 'UTF8')) FROM 1 FOR 8), 'hex'
))::bit(64)::bigint
FROM battles JOIN prompts ON prompts.id = battles.prompt_id
WHERE battles.id = votes.sealed_battle_id
"""


def upgrade() -> None:
    op.add_column("votes", sa.Column("prompt", sa.BigInteger(), nullable=True))
    op.execute(_FILL)


def downgrade() -> None:
    op.drop_column("votes", "prompt")
