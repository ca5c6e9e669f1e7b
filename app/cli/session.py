from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from app.database.engine import Database
from app.environment import read_settings
from app.naming.opening import open_database
from app.naming.service import Naming
from app.settings import Settings


@dataclass(frozen=True)
class Session:
    """What a command works with: the settings and the open database."""

    settings: Settings
    database: Database


def database_url(settings: Settings) -> str | None:
    """Return the address of the database server that was set, None for the embedded one."""
    return settings.database_url.get_secret_value() if settings.database_url else None


def open_database_of(settings: Settings, *, revives: bool = True) -> AbstractContextManager[Database]:
    """Open the database that the settings name, as `open_database` does."""
    return open_database(
        database_url(settings),
        settings.data_dir,
        pool_size=settings.database.pool_size,
        connect_timeout=settings.database.connect_timeout_seconds,
        naming=Naming.chosen(
            settings.ingest.unknown_models,
            settings.pseudonym_secrets(),
            settings.pseudonym_key_version,
            raw_beside=settings.allow_raw_keys,
        ),
        revives=revives,
    )


@contextmanager
def open_session(*, revives: bool = True) -> Iterator[Session]:
    """Open the database that the environment names while the block runs; each command commits for itself."""
    settings = read_settings()
    with open_database_of(settings, revives=revives) as database:
        yield Session(settings, database)
