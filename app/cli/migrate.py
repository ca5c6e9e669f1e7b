import typer

from app.cli.session import database_url, read_settings
from app.store.opening import open_database
from app.store.schema import needed_revision, upgrade


def migrate() -> None:
    """Bring the database to the schema of this version; harmless when it is there already."""
    settings = read_settings()
    url = database_url(settings)
    if url is not None:
        upgrade(url, connect_timeout=settings.database.connect_timeout_seconds)
    else:
        # The embedded database is migrated whenever it is opened.
        with open_database(None, settings.data_dir):
            pass
    typer.echo(f"The schema is at {needed_revision()}.")
