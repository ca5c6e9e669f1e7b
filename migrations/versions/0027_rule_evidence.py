"""The flag rule `probability` is gone: a policy in force that has it becomes one with the rule `evidence`."""

from alembic import op

revision: str = "0027"
down_revision: str | None = "0026"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    """Add a version with the same settings: versions on record are never edited."""
    op.execute(
        """
        INSERT INTO policies (settings, reason, created_by)
        SELECT (settings - 'flag_probability') || '{"flag_rule": "evidence"}',
               'the flag rule probability is gone: evidence stands in its place', 'migration'
        FROM policies
        WHERE version = (SELECT max(version) FROM policies) AND settings->>'flag_rule' = 'probability'
        """
    )


def downgrade() -> None:
    """Keep the version that was added: earlier releases read it, and snapshots may name it."""
