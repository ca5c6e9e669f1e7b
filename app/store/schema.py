from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import text

import app
from app.errors import UnavailableError
from app.store.database import Database

# Any number that no other advisory lock uses: two processes that migrate at once take turns.
_MIGRATION_LOCK = 1_593_114_001


class SchemaBehindError(UnavailableError):
    """The database's tables are not those that this version of the service works with."""

    code = "schema-behind"
    title = "The database schema does not fit this version"


def alembic_config() -> Config:
    """Return the migrations' configuration, from the pyproject.toml beside the package."""
    return Config(toml_file=Path(app.__file__).parent.parent / "pyproject.toml")


def upgrade(url: str, revision: str = "head", *, connect_timeout: int = 5) -> None:
    """Bring the database's schema up to `revision`, all steps in one transaction."""
    with Database(url, pool_size=1, connect_timeout=connect_timeout) as database, database.begin() as conn:
        conn.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _MIGRATION_LOCK})
        config = alembic_config()
        config.attributes["connection"] = conn
        try:
            command.upgrade(config, revision)
        except CommandError as error:
            raise SchemaBehindError(f"the schema cannot be brought to this version: {error}") from None


def downgrade(url: str, revision: str) -> None:
    """Take the database's schema back to `revision`; what only later schemas can hold is lost."""
    with Database(url, pool_size=1) as database, database.begin() as conn:
        conn.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _MIGRATION_LOCK})
        config = alembic_config()
        config.attributes["connection"] = conn
        command.downgrade(config, revision)


def needed_revision() -> str | None:
    """Return the revision that this version of the service works with."""
    return ScriptDirectory.from_config(alembic_config()).get_current_head()


def require_current(database: Database, needed: str | None = None) -> None:
    """Check that the schema is the one that this version works with; `needed` saves looking it up again.

    Raises
    ------
    SchemaBehindError
        It is older, newer or absent.
    """
    needed = needed or needed_revision()
    with database.read() as conn:
        found = MigrationContext.configure(conn).get_current_revision()
    if found == needed:
        return
    if found and found not in {
        script.revision for script in ScriptDirectory.from_config(alembic_config()).walk_revisions()
    }:
        raise SchemaBehindError(f"the schema is at {found}, which this version does not know: it needs a newer version")
    place = f"at {found}" if found else "empty"
    raise SchemaBehindError(f"the schema is {place}, this version needs {needed}: run stable-arena migrate")
