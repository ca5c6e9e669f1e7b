"""What a command works with: the settings and the open database."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import Connection

from app.database.engine import Database
from app.database.opening import open_database
from app.opening import database_url, open_database_of
from app.settings import Settings, read_settings


@dataclass(frozen=True)
class CommandSession:
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
def open_session(*, creates: bool = True) -> Iterator[CommandSession]:
    """Open the database that the settings name while the block runs; each command commits for itself."""
    settings = read_settings()
    with open_database_of(settings, creates=creates) as database:
        yield CommandSession(settings, database)


@contextmanager
def open_any_schema(*, creates: bool = False) -> Iterator[Database]:
    """Open the database that the settings name, whatever its schema; the embedded one is brought to this version's."""
    settings = read_settings()
    url, timeout = database_url(settings), settings.database.connect_timeout_seconds
    if url is None:
        with open_database(None, settings.data_dir, connect_timeout=timeout, creates=creates) as database:
            yield database
        return
    with Database(url, connect_timeout=timeout, transaction_pooler=settings.database.transaction_pooler) as database:
        yield database
