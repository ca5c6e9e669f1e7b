"""Models whose votes count for another model."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.types import UserDefinedType

revision: str = "0025"
down_revision: str | None = "0024"
branch_labels: str | None = None
depends_on: str | None = None


class _Xid8(UserDefinedType[str]):
    cache_ok = True

    def get_col_spec(self, **_: object) -> str:
        return "xid8"


def upgrade() -> None:
    op.create_table(
        "model_merges",
        sa.Column("id", sa.Integer(), sa.Identity(), nullable=False),
        sa.Column("model_id", sa.Integer(), nullable=False),
        sa.Column("before", sa.DateTime(timezone=True)),
        sa.Column("into_id", sa.Integer()),
        sa.Column("reason", sa.Text()),
        sa.Column("recorded_by", sa.Text(), nullable=False),
        sa.Column("recorded_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
        sa.Column("recorded_in", _Xid8(), server_default=sa.text("pg_current_xact_id()"), nullable=False),
        sa.CheckConstraint("model_id <> into_id", name=op.f("ck_model_merges_two_models")),
        sa.ForeignKeyConstraint(["model_id"], ["models.id"], name=op.f("fk_model_merges_model_id")),
        sa.ForeignKeyConstraint(["into_id"], ["models.id"], name=op.f("fk_model_merges_into_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_model_merges")),
    )


def downgrade() -> None:
    """Forget the merges: every model's votes count for itself."""
    op.drop_table("model_merges")
