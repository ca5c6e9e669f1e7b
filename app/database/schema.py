"""The schema: bring a database to the current one, take it back, check it."""

from functools import cache
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

_PACKAGE = Path(app.__file__).parent
_INSTALLED = _PACKAGE / "migrations"
MIGRATIONS = _INSTALLED if _INSTALLED.is_dir() else _PACKAGE.parent / "migrations"
"""The folder of the migrations: inside the package in an installed copy, beside it in a clone."""

# Any number that no other advisory lock uses. Two processes that migrate at the same time run one after the other.
_MIGRATION_LOCK = 1_593_114_001
_KNOWS_UNRELEASED = "0044"  # the first schema with models that the public may not see

WORKS_WITH: tuple[str, ...] = ()
"""Earlier revisions whose code also works on the newest schema and on the rows that this version writes.

The earlier code cannot know them, so they are stored in the database, in a comment on alembic's table. 0003 is not
among them: its code does not read the comment, and it would show leaderboards by tag as extra rows. No revision before
0019 can be: its code would read votes as retracted although their retraction was withdrawn, and cannot retract votes.
"""

OLDEST = "0021"
"""The schema of the first release. Going further back would drop what is kept for ever, such as the audit log."""

_COMMENT = text("SELECT obj_description(to_regclass('alembic_version'), 'pg_class')")
_PREFIX = "works with: "


class SchemaBehindError(UnavailableError):
    """The database has another schema than this version of the service needs."""

    code = "schema-behind"
    title = "The database schema does not fit this version"


class UnknownRevisionError(BadInputError):
    """The schema cannot go back to this revision."""


class VotesWouldBeDeletedError(BadInputError):
    """The earlier schema cannot hold some of the votes."""


class CodenamesWouldBePublicError(BadInputError):
    """The earlier schema knows of no model that the public may not see."""


def alembic_config(conn: Connection | None = None) -> Config:
    """Return alembic's configuration; developers who run `alembic` itself have theirs in pyproject.toml."""
    config = Config(attributes={} if conn is None else {"connection": conn})
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))  # % begins a reference there
    return config


def upgrade(url: str, revision: str = "head") -> None:
    """Bring the database's schema up to `revision`, all steps in one transaction.

    A newer schema on which this version's code works is left as it is.
    """
    with Database(url, pool_size=1) as database, database.begin() as conn:
        upgrade_within(conn, revision)


def upgrade_within(conn: Connection, revision: str = "head") -> None:
    """Bring the schema up to `revision` within this transaction, as `upgrade` does."""
    lock_schema(conn)
    if needed_revision() in _works_with(conn):
        return
    try:
        command.upgrade(alembic_config(conn), revision)
    except CommandError as error:
        raise SchemaBehindError(f"the schema cannot be brought to this version: {error}") from None
    _record_what_works(conn)


def lock_schema(conn: Connection) -> None:
    """Wait until no other process changes the schema, and keep it so until this transaction ends."""
    conn.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _MIGRATION_LOCK})


def take_back(conn: Connection, revision: str, *, delete_votes: bool) -> int:
    """Take the schema back to `revision`, that of a release or later; return how many votes were deleted.

    Data that only later schemas hold are lost, votes only if `delete_votes`. Raises UnknownRevisionError: it is not an
    earlier revision that this version knows. Raises VotesWouldBeDeletedError and CodenamesWouldBePublicError, before
    anything is changed.
    """
    lock_schema(conn)
    found, revisions = current_revision(conn), known_revisions()
    if found not in revisions:
        raise SchemaBehindError(f"the schema is {_place(found)}; this version cannot take it back from there")
    earlier = revisions[revisions.index(found) : revisions.index(OLDEST) + 1]
    if revision not in earlier:
        places = ", ".join(earlier[1:]) or "none"
        raise UnknownRevisionError(f"the schema is at {found}; it can go back to {places}")
    conn.execute(text("LOCK TABLE votes"))  # as going back does: none comes in after the count
    if _KNOWS_UNRELEASED in earlier[: earlier.index(revision)]:
        hidden = int(conn.execute(text("SELECT count(*) FROM models WHERE unreleased")).scalar_one())
        if hidden:
            detail = f"the schema {revision} would show the public {hidden:,} unreleased models: publish them first"
            raise CodenamesWouldBePublicError(detail, extensions={"models": hidden})
    votes = _count_votes_beyond(conn, earlier[: earlier.index(revision)])
    if votes and not delete_votes:
        detail = f"the schema {revision} cannot hold {votes:,} of the votes (rankings, votes by criteria)"
        raise VotesWouldBeDeletedError(f"{detail}: --delete-votes deletes them", extensions={"votes": votes})
    downgrade_within(conn, revision)
    return votes


def _count_votes_beyond(conn: Connection, undone: list[str]) -> int:
    """Count the votes that undoing these revisions deletes: each migration says it in DELETED_VOTES."""
    scripts = ScriptDirectory.from_config(alembic_config()).walk_revisions()
    modules = [script.module for script in scripts if script.revision in undone]
    deleted = [f"({module.DELETED_VOTES})" for module in modules if hasattr(module, "DELETED_VOTES")]
    if not deleted:
        return 0
    return int(conn.execute(text(f"SELECT count(*) FROM votes WHERE {' OR '.join(deleted)}")).scalar_one())  # noqa: S608


def downgrade(url: str, revision: str) -> None:
    """Take the database's schema back to `revision`, whatever is lost (`base`: all data)."""
    with Database(url, pool_size=1) as database, database.begin() as conn:
        downgrade_within(conn, revision)


def downgrade_within(conn: Connection, revision: str) -> None:
    """Take the schema back to `revision` within this transaction, as `downgrade` does."""
    lock_schema(conn)
    command.downgrade(alembic_config(conn), revision)
    conn.execute(text("COMMENT ON TABLE alembic_version IS NULL"))


def current_revision(conn: Connection) -> str | None:
    """Return the revision of the database's schema; None where there is none yet."""
    return MigrationContext.configure(conn).get_current_revision()


def known_revisions() -> list[str]:
    """Return the revisions that this version knows, newest first."""
    return [script.revision for script in ScriptDirectory.from_config(alembic_config()).walk_revisions()]


@cache
def needed_revision() -> str | None:
    """Return the revision that this version of the service works with."""
    return ScriptDirectory.from_config(alembic_config()).get_current_head()


def require_current(database: Database) -> None:
    """Check that this version works with the schema: it is its own, or a newer one that names it as working.

    Raises SchemaBehindError: the schema is older, too new or absent.
    """
    needed = needed_revision()
    with database.read() as conn:
        found = current_revision(conn)
        if found == needed or (found and needed in _works_with(conn)):
            return
    if found and found not in known_revisions():
        raise SchemaBehindError(f"the schema is at {found}, which this version does not know: it needs a newer version")
    raise SchemaBehindError(f"the schema is {_place(found)}, this version needs {needed}: run stable-arena migrate")


def _place(revision: str | None) -> str:
    return f"at {revision}" if revision else "empty"


def _record_what_works(conn: Connection) -> None:
    """Store in the database which earlier versions work with it, if it has the newest schema."""
    if current_revision(conn) != needed_revision():
        return
    conn.execute(text(f"COMMENT ON TABLE alembic_version IS '{_PREFIX}{' '.join(WORKS_WITH)}'"))


def _works_with(conn: Connection) -> set[str]:
    comment = conn.execute(_COMMENT).scalar_one() or ""
    return set(comment.removeprefix(_PREFIX).split()) if comment.startswith(_PREFIX) else set()
