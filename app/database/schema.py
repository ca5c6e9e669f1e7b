from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, text

import app
from app.database.engine import Database
from app.errors import BadInputError, UnavailableError

# Any number that no other advisory lock uses: two processes that migrate at once take turns.
_MIGRATION_LOCK = 1_593_114_001

WORKS_WITH: tuple[str, ...] = ()
"""Earlier revisions whose code works on the newest schema, and on what this version writes there.

The database is told, in a comment on alembic's table, because the earlier code cannot know. 0003 is not among them: its
code does not look there yet, and its boards would show those by tag as rows of their own.
"""

_COMMENT = text("SELECT obj_description(to_regclass('alembic_version'), 'pg_class')")
_SAYS = "works with: "


class SchemaBehindError(UnavailableError):
    """The database's tables are not those that this version of the service works with."""

    code = "schema-behind"
    title = "The database schema does not fit this version"


class UnknownRevisionError(BadInputError):
    """The schema cannot be taken back to there."""


def alembic_config() -> Config:
    """Return the migrations' configuration, from the pyproject.toml beside the package."""
    return Config(toml_file=Path(app.__file__).parent.parent / "pyproject.toml")


def upgrade(url: str, revision: str = "head", *, connect_timeout: int = 5) -> None:
    """Bring the database's schema up to `revision`, all steps in one transaction.

    A newer one that this version's code works on is left as it is.
    """
    with Database(url, pool_size=1, connect_timeout=connect_timeout) as database, database.begin() as conn:
        conn.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _MIGRATION_LOCK})
        if needed_revision() in _works_with(conn):
            return
        config = alembic_config()
        config.attributes["connection"] = conn
        try:
            command.upgrade(config, revision)
        except CommandError as error:
            raise SchemaBehindError(f"the schema cannot be brought to this version: {error}") from None
        _tell_what_works(conn)


def downgrade(url: str, revision: str, *, connect_timeout: int = 5) -> None:
    """Take the database's schema back to `revision`; what only later schemas can hold is lost: with `base` everything.

    Raises
    ------
    UnknownRevisionError
        The schema was never at it, as far as this version knows.
    """
    config = alembic_config()
    with Database(url, pool_size=1, connect_timeout=connect_timeout) as database, database.begin() as conn:
        conn.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _MIGRATION_LOCK})
        found = MigrationContext.configure(conn).get_current_revision()
        revisions = [script.revision for script in ScriptDirectory.from_config(config).walk_revisions()]  # newest first
        if found not in revisions:
            raise SchemaBehindError(f"the schema is {_place(found)}, from which this version cannot take it back")
        earlier = revisions[revisions.index(found) :]
        if revision not in (*earlier, "base"):
            places = ", ".join(earlier[1:]) or "none"
            raise UnknownRevisionError(f"the schema is at {found}; it can go back to {places}")
        config.attributes["connection"] = conn
        command.downgrade(config, revision)
        conn.execute(text("COMMENT ON TABLE alembic_version IS NULL"))


def needed_revision() -> str | None:
    """Return the revision that this version of the service works with."""
    return ScriptDirectory.from_config(alembic_config()).get_current_head()


def require_current(database: Database, needed: str | None = None) -> None:
    """Check that the schema is one that this version works with; `needed` saves looking it up again.

    That is its own, or a newer one of which the database says that this version's code works on it.

    Raises
    ------
    SchemaBehindError
        It is older, too new or absent.
    """
    needed = needed or needed_revision()
    with database.read() as conn:
        found = MigrationContext.configure(conn).get_current_revision()
        if found == needed or (found and needed in _works_with(conn)):
            return
    if found and found not in {
        script.revision for script in ScriptDirectory.from_config(alembic_config()).walk_revisions()
    }:
        raise SchemaBehindError(f"the schema is at {found}, which this version does not know: it needs a newer version")
    raise SchemaBehindError(f"the schema is {_place(found)}, this version needs {needed}: run stable-arena migrate")


def _place(revision: str | None) -> str:
    return f"at {revision}" if revision else "empty"


def _tell_what_works(conn: Connection) -> None:
    """Write into the database which earlier versions may go on working on it, if it has the newest schema."""
    if MigrationContext.configure(conn).get_current_revision() != needed_revision():
        return
    conn.execute(text(f"COMMENT ON TABLE alembic_version IS '{_SAYS}{' '.join(WORKS_WITH)}'"))


def _works_with(conn: Connection) -> set[str]:
    said = conn.execute(_COMMENT).scalar_one() or ""
    return set(said.removeprefix(_SAYS).split()) if said.startswith(_SAYS) else set()
