"""A number in `prior_sd` lies in 0.05 to 0.6 now: a policy in force with another one gets a new version.

1, the default of the first release, becomes `estimated`, the default now.
"""

from alembic import op

revision: str = "0042"
down_revision: str | None = "0041"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    """Add a version with the same settings: versions on record are never edited."""
    op.execute(
        """
        INSERT INTO policies (settings, reason, created_by)
        SELECT settings || jsonb_build_object(
                   'prior_sd',
                   CASE WHEN sd = 1 THEN '"estimated"'::jsonb ELSE to_jsonb(least(greatest(sd, 0.05), 0.6)) END
               ),
               'a number in prior_sd is now the spread of abilities before any vote is seen, 0.05 to 0.6', 'migration'
        FROM (
            SELECT version, settings,
                   CASE jsonb_typeof(settings->'prior_sd') WHEN 'number' THEN (settings->>'prior_sd')::numeric END AS sd
            FROM policies
        ) AS on_record
        WHERE version = (SELECT max(version) FROM policies) AND (sd < 0.05 OR sd > 0.6)
        """
    )


def downgrade() -> None:
    """Keep the version that was added: earlier releases read it, and snapshots may name it."""
