"""What ingest needs: retractions, aliases, tokens, idempotency keys, imports and exports as jobs."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.types import UserDefinedType

revision: str = "0002"
down_revision: str | None = "0001"
branch_labels: str | None = None
depends_on: str | None = None

VOTES_POINT_AT = {"annotator_id": "annotators", "model_a_id": "models", "model_b_id": "models",
                  "api_key_id": "api_keys", "import_id": "imports"}  # fmt: skip
NEVER_DELETED = ("annotators", "models", "api_keys", "imports")
NEW_TABLES = (
    "model_aliases", "ingest_tokens", "retractions", "retracted_votes", "idempotency_keys", "import_faults", "exports",
    "file_chunks",
)  # fmt: skip


class _Xid8(UserDefinedType[str]):
    cache_ok = True

    def get_col_spec(self, **_: object) -> str:
        return "xid8"


def upgrade() -> None:
    _change_votes()
    _change_keys_and_names()
    _change_imports()
    _create_retractions()
    _create_files()


def downgrade() -> None:
    for table in reversed(NEW_TABLES):
        op.drop_table(table)
    op.drop_constraint(op.f("ck_imports_state_known"), "imports")
    for column in ("state", "bytes", "options", "rows_done", "rows_total", "detail", "requested_by", "started_at",
                   "finished_at"):  # fmt: skip
        op.drop_column("imports", column)
    op.drop_column("annotators", "erased_at")
    for column in ("organization", "license", "link", "released", "archived_at"):
        op.drop_column("models", column)
    op.drop_constraint(op.f("ck_api_keys_requests_per_minute_positive"), "api_keys")
    for column in ("expires_at", "replaced_by", "requests_per_minute"):
        op.drop_column("api_keys", column)
    for table in NEVER_DELETED:
        op.execute(f"DROP TRIGGER never_deleted ON {table}")
        op.execute(f"DROP TRIGGER never_truncated ON {table}")
    op.execute("DROP FUNCTION refuse_deletion()")
    op.drop_index("uq_votes_battle_id_annotator_id_version", "votes")
    # Only the first verdict of a battle fits the earlier schema.
    op.execute("DELETE FROM votes WHERE version > 0")
    op.drop_column("votes", "version")
    _unique_battles(["battle_id", "annotator_id"])
    for column, table in VOTES_POINT_AT.items():
        op.create_foreign_key(op.f(f"fk_votes_{column}"), "votes", table, [column], ["id"])


def _unique_battles(columns: list[str]) -> None:
    op.create_index(
        f"uq_votes_{'_'.join(columns)}",
        "votes",
        columns,
        unique=True,
        postgresql_where=sa.text("battle_id IS NOT NULL"),
    )


def _change_votes() -> None:
    for column in VOTES_POINT_AT:
        op.drop_constraint(op.f(f"fk_votes_{column}"), "votes", type_="foreignkey")
    op.execute(
        """
        CREATE FUNCTION refuse_deletion() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            RAISE EXCEPTION 'rows of % are never deleted: votes name them', TG_TABLE_NAME
                USING ERRCODE = 'restrict_violation';
        END $$
        """
    )
    for table in NEVER_DELETED:
        op.execute(
            f"CREATE TRIGGER never_deleted BEFORE DELETE ON {table} FOR EACH ROW EXECUTE FUNCTION refuse_deletion()"
        )
        op.execute(f"CREATE TRIGGER never_truncated BEFORE TRUNCATE ON {table} EXECUTE FUNCTION refuse_deletion()")
    op.add_column("votes", sa.Column("version", sa.SmallInteger(), server_default="0", nullable=False))
    op.drop_index("uq_votes_battle_id_annotator_id", "votes")
    _unique_battles(["battle_id", "annotator_id", "version"])


def _change_keys_and_names() -> None:
    op.add_column("api_keys", sa.Column("expires_at", sa.DateTime(timezone=True)))
    op.add_column("api_keys", sa.Column("replaced_by", sa.Uuid()))
    op.add_column("api_keys", sa.Column("requests_per_minute", sa.Integer()))
    op.create_foreign_key(op.f("fk_api_keys_replaced_by"), "api_keys", "api_keys", ["replaced_by"], ["id"])
    op.create_check_constraint(op.f("ck_api_keys_requests_per_minute_positive"), "api_keys", "requests_per_minute > 0")
    op.create_table(
        "ingest_tokens",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("api_key_id", sa.Uuid(), nullable=False),
        sa.Column("prefix", sa.Text(), nullable=False),
        sa.Column("secret_hash", sa.LargeBinary(), nullable=False),
        sa.Column("annotator", sa.Text()),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["api_key_id"], ["api_keys.id"], name=op.f("fk_ingest_tokens_api_key_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ingest_tokens")),
        sa.UniqueConstraint("prefix", name=op.f("uq_ingest_tokens_prefix")),
    )
    op.create_index(op.f("ix_ingest_tokens_expires_at"), "ingest_tokens", ["expires_at"])
    for name in ("organization", "license", "link"):
        op.add_column("models", sa.Column(name, sa.Text()))
    op.add_column("models", sa.Column("released", sa.Date()))
    op.add_column("models", sa.Column("archived_at", sa.DateTime(timezone=True)))
    op.add_column("annotators", sa.Column("erased_at", sa.DateTime(timezone=True)))
    op.create_table(
        "model_aliases",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("model_id", sa.Integer(), nullable=False),
        sa.Column("valid_from", sa.DateTime(timezone=True)),
        sa.Column("valid_until", sa.DateTime(timezone=True)),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("valid_from < valid_until", name=op.f("ck_model_aliases_period_in_order")),
        sa.ForeignKeyConstraint(["model_id"], ["models.id"], name=op.f("fk_model_aliases_model_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_model_aliases")),
    )
    op.create_index(op.f("ix_model_aliases_name"), "model_aliases", ["name"])
    op.create_index(op.f("ix_model_aliases_model_id"), "model_aliases", ["model_id"])


def _change_imports() -> None:
    # What was imported before was imported whole, by someone whose name was not kept.
    for column, filled in (("state", "done"), ("requested_by", "unknown")):
        op.add_column("imports", sa.Column(column, sa.Text(), server_default=filled, nullable=False))
        op.alter_column("imports", column, server_default=None)
    op.add_column("imports", sa.Column("bytes", sa.BigInteger()))
    op.add_column("imports", sa.Column("options", JSONB(), server_default="{}", nullable=False))
    op.add_column("imports", sa.Column("rows_done", sa.BigInteger(), server_default="0", nullable=False))
    op.add_column("imports", sa.Column("rows_total", sa.BigInteger()))
    op.add_column("imports", sa.Column("detail", sa.Text()))
    op.add_column("imports", sa.Column("started_at", sa.DateTime(timezone=True)))
    op.add_column("imports", sa.Column("finished_at", sa.DateTime(timezone=True)))
    op.execute("UPDATE imports SET finished_at = created_at, rows_done = coalesce((counts->>'rows')::bigint, 0)")
    op.create_check_constraint(
        op.f("ck_imports_state_known"), "imports", "state IN ('receiving', 'queued', 'running', 'done', 'failed')"
    )


def _create_retractions() -> None:
    op.create_table(
        "retractions",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("target_id", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("retracted_by", sa.Text(), nullable=False),
        sa.Column("votes", sa.BigInteger(), nullable=False),
        sa.Column("retracted_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint(
            "target IN ('vote', 'battle', 'model', 'annotator')", name=op.f("ck_retractions_target_known")
        ),
        sa.CheckConstraint("length(reason) > 0", name=op.f("ck_retractions_reason_given")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_retractions")),
    )
    op.create_table(
        "retracted_votes",
        sa.Column("vote_id", sa.Uuid(), nullable=False),
        sa.Column("retraction_id", sa.Uuid()),
        sa.Column("replaced_by", sa.Uuid()),
        sa.Column("recorded_in", _Xid8(), server_default=sa.text("pg_current_xact_id()"), nullable=False),
        sa.CheckConstraint(
            "(retraction_id IS NULL) <> (replaced_by IS NULL)", name=op.f("ck_retracted_votes_one_cause")
        ),
        sa.ForeignKeyConstraint(["retraction_id"], ["retractions.id"], name=op.f("fk_retracted_votes_retraction_id")),
        sa.PrimaryKeyConstraint("vote_id", name=op.f("pk_retracted_votes")),
    )
    op.create_index("ix_retracted_votes_recorded_in", "retracted_votes", ["recorded_in"])
    op.create_table(
        "idempotency_keys",
        sa.Column("api_key_id", sa.Uuid(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.LargeBinary(), nullable=False),
        sa.Column("status", sa.SmallInteger(), nullable=False),
        sa.Column("answer", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("api_key_id", "key", name=op.f("pk_idempotency_keys")),
    )
    op.create_index("ix_idempotency_keys_created_at", "idempotency_keys", ["created_at"])


def _create_files() -> None:
    op.create_table(
        "import_faults",
        sa.Column("import_id", sa.Uuid(), nullable=False),
        sa.Column("record", sa.BigInteger(), nullable=False),
        sa.Column("place", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.CheckConstraint("kind IN ('invalid', 'conflict')", name=op.f("ck_import_faults_kind_known")),
        sa.ForeignKeyConstraint(["import_id"], ["imports.id"], name=op.f("fk_import_faults_import_id")),
        sa.PrimaryKeyConstraint("import_id", "record", name=op.f("pk_import_faults")),
    )
    op.create_table(
        "exports",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("what", sa.Text(), nullable=False),
        sa.Column("format", sa.Text(), nullable=False),
        sa.Column("options", JSONB(), server_default="{}", nullable=False),
        sa.Column("rows", sa.BigInteger()),
        sa.Column("bytes", sa.BigInteger()),
        sa.Column("detail", sa.Text()),
        sa.Column("requested_by", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True)),
        sa.CheckConstraint("state IN ('queued', 'running', 'done', 'failed')", name=op.f("ck_exports_state_known")),
        sa.CheckConstraint("what IN ('votes', 'annotators', 'leaderboard')", name=op.f("ck_exports_what_known")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_exports")),
    )
    op.create_table(
        "file_chunks",
        sa.Column("file_id", sa.Uuid(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("file_id", "number", name=op.f("pk_file_chunks")),
    )
    # Files come compressed, or are read once: compressing pieces of them again only costs time.
    op.execute("ALTER TABLE file_chunks ALTER COLUMN content SET STORAGE EXTERNAL")
