"""What a command works with: the settings and the open database."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from sqlalchemy import Connection

from app.database.engine import Database
from app.database.opening import open_database
from app.naming.service import Naming
from app.settings import Settings, read_settings


@dataclass(frozen=True)
class Session:
    """The settings and the open database."""

    settings: Settings
    database: Database


@contextmanager
def reading() -> Iterator[Connection]:
    """Run a read-only transaction on the database that the settings name; where there is none, refuse."""
    with open_session(creates=False) as session, session.database.read() as conn:
        yield conn


@contextmanager
def changing(*, creates: bool = False) -> Iterator[Connection]:
    """Run a transaction on the database that the settings name and commit it at the end of the block."""
    with open_session(creates=creates) as session, session.database.begin() as conn:
        yield conn


@contextmanager
def open_session(*, creates: bool = True, revives: bool = True) -> Iterator[Session]:
    """Open the database that the settings name while the block runs; each command commits for itself."""
    settings = read_settings()
    with open_database_of(settings, creates=creates, revives=revives) as database:
        yield Session(settings, database)


def open_database_of(
    settings: Settings, *, creates: bool = True, revives: bool = True
) -> AbstractContextManager[Database]:
    """Open the database that the settings name, as `open_database` does."""
    return open_database(
        database_url(settings),
        settings.data_dir,
        pool_size=settings.database.pool_size,
        connect_timeout=settings.database.connect_timeout_seconds,
        connection_options=Naming.chosen(
            settings.ingest.unknown_models,
            settings.pseudonym_secrets(),
            settings.pseudonym_key_version,
            raw_beside=settings.allow_raw_keys,
        ).connection_options,
        creates=creates,
        revives=revives,
    )


def database_url(settings: Settings) -> str | None:
    """Return the address of the database server that was set, None for the embedded one."""
    return settings.database_url.get_secret_value() if settings.database_url else None
