"""Opening the database that the settings name."""

from contextlib import AbstractContextManager

from app.database.engine import Database
from app.database.opening import open_database
from app.naming.service import Naming
from app.settings import Settings


def open_database_of(
    settings: Settings, *, extra_connections: int = 0, creates: bool = True, revives: bool = True
) -> AbstractContextManager[Database]:
    """Open the database that the settings name, with so many connections more, as `open_database` does."""
    naming = Naming.chosen(
        settings.ingest.unknown_models,
        settings.pseudonym_secrets(),
        settings.pseudonym_key_version,
        raw_beside=settings.allow_raw_keys,
    )
    return open_database(
        database_url(settings),
        settings.data_dir,
        pool_size=settings.database.pool_size + extra_connections,
        connect_timeout=settings.database.connect_timeout_seconds,
        connection_options=naming.connection_options,
        transaction_pooler=settings.database.transaction_pooler,
        creates=creates,
        revives=revives,
    )


def database_url(settings: Settings) -> str | None:
    """Return the URL of the database server, or None for the embedded one."""
    return settings.database_url.get_secret_value() if settings.database_url else None
