"""Sessions without an API key, of people that an OpenID Connect provider signed in."""

import sqlalchemy as sa
from alembic import op

revision: str = "0016"
down_revision: str | None = "0015"
branch_labels: str | None = None
depends_on: str | None = None

RULE = "ck_sessions_of_a_key_or_a_person"


def upgrade() -> None:
    op.alter_column("sessions", "api_key_id", nullable=True)
    op.add_column("sessions", sa.Column("name", sa.Text()))
    op.add_column("sessions", sa.Column("scopes", sa.ARRAY(sa.Text())))
    op.create_check_constraint(
        op.f(RULE), "sessions", "(api_key_id IS NULL) = (name IS NOT NULL) AND (name IS NULL) = (scopes IS NULL)"
    )


def downgrade() -> None:
    op.execute("DELETE FROM sessions WHERE api_key_id IS NULL")
    op.drop_constraint(op.f(RULE), "sessions")
    op.drop_column("sessions", "scopes")
    op.drop_column("sessions", "name")
    op.alter_column("sessions", "api_key_id", nullable=False)
