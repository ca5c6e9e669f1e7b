"""Sessions of browsers, and one-time sign-in links."""

import sqlalchemy as sa
from alembic import op

revision: str = "0007"
down_revision: str | None = "0006"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    op.create_table(
        "sessions",
        *_secret_of_a_key("sessions"),
        sa.Column("browser", sa.Text(), nullable=False),
        _time("created_at", sa.text("now()")),
        _time("last_used_at", sa.text("now()")),
        _time("idle_until"),
        _time("expires_at"),
    )
    op.create_index(op.f("ix_sessions_api_key_id"), "sessions", ["api_key_id"])
    op.create_table(
        "sign_in_links",
        *_secret_of_a_key("sign_in_links"),
        _time("created_at", sa.text("now()")),
        _time("expires_at"),
    )


def downgrade() -> None:
    op.drop_table("sign_in_links")
    op.drop_table("sessions")


def _secret_of_a_key(table: str) -> list[sa.schema.SchemaItem]:
    return [
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("api_key_id", sa.Uuid(), nullable=False),
        sa.Column("secret_hash", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["api_key_id"], ["api_keys.id"], name=op.f(f"fk_{table}_api_key_id")),
        sa.PrimaryKeyConstraint("id", name=op.f(f"pk_{table}")),
        sa.UniqueConstraint("secret_hash", name=op.f(f"uq_{table}_secret_hash")),
    ]


def _time(name: str, default: sa.TextClause | None = None) -> sa.Column[object]:
    return sa.Column(name, sa.DateTime(timezone=True), server_default=default, nullable=False)
