"""Battles that the service draws and seals, and the secret of their tokens."""

import secrets

import sqlalchemy as sa
from alembic import op

revision: str = "0012"
down_revision: str | None = "0011"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    op.create_table(
        "candidate_sets",
        sa.Column("id", sa.Integer(), sa.Identity(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("model_ids", sa.ARRAY(sa.Integer()), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_candidate_sets")),
        sa.UniqueConstraint("digest", name=op.f("uq_candidate_sets_digest")),
    )
    op.create_table(
        "battles",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("annotator_id", sa.Integer(), nullable=False),
        sa.Column("left_id", sa.Integer(), nullable=False),
        sa.Column("right_id", sa.Integer(), nullable=False),
        sa.Column("candidate_set_id", sa.Integer(), nullable=False),
        sa.Column("tags", sa.ARRAY(sa.Text()), server_default="{}", nullable=False),
        sa.Column("drawn_by", sa.Text(), nullable=False),
        sa.Column("propensity", sa.Double(), nullable=False),
        sa.Column("snapshot_id", sa.Uuid()),
        sa.Column("policy_version", sa.Integer(), nullable=False),
        sa.Column("api_key_id", sa.Uuid()),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("vote_id", sa.Uuid()),
        sa.Column("skip_reason", sa.Text()),
        sa.Column("ended_at", sa.DateTime(timezone=True)),
        sa.CheckConstraint("left_id <> right_id", name=op.f("ck_battles_two_models")),
        sa.CheckConstraint("propensity > 0 AND propensity <= 1", name=op.f("ck_battles_propensity_is_a_probability")),
        sa.CheckConstraint(
            "skip_reason IN ('skip', 'identity_leaked', 'failed')", name=op.f("ck_battles_skip_reason_known")
        ),
        sa.CheckConstraint("vote_id IS NULL OR skip_reason IS NULL", name=op.f("ck_battles_ended_once")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_battles")),
        postgresql_with={"fillfactor": 85},
    )
    op.create_index("ix_battles_annotator_id_id", "battles", ["annotator_id", "id"])
    op.create_index("ix_battles_created_at", "battles", ["created_at"], postgresql_using="brin")
    op.add_column("votes", sa.Column("sealed_battle_id", sa.Uuid()))
    op.create_index(
        "uq_votes_sealed_battle_id",
        "votes",
        ["sealed_battle_id"],
        unique=True,
        postgresql_where=sa.text("sealed_battle_id IS NOT NULL"),
    )
    op.create_table(
        "service_secrets",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("secret", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_service_secrets")),
    )
    secret = sa.text("INSERT INTO service_secrets (name, secret) VALUES ('battle-tokens', :secret)")
    op.get_bind().execute(secret, {"secret": secrets.token_bytes(32)})


def downgrade() -> None:
    op.drop_table("service_secrets")
    op.drop_index("uq_votes_sealed_battle_id", "votes")
    op.drop_column("votes", "sealed_battle_id")
    op.drop_table("battles")
    op.drop_table("candidate_sets")
