"""The command `stable-arena migrate`."""

from typing import Annotated

import typer

from app.database.opening import open_database
from app.database.schema import downgrade, needed_revision, upgrade
from app.errors import BadInputError
from app.opening import database_url
from app.settings import Settings, read_settings


def migrate(
    to: Annotated[
        str | None,
        typer.Option(
            metavar="REVISION",
            help="Go back to this earlier schema, for an earlier version. Data that only later schemas hold are lost.",
        ),
    ] = None,
) -> None:
    """Bring the database to the schema of this version; harmless when it is there already."""
    settings = read_settings()
    if to is None:
        _upgrade(settings)
    else:
        _take_back(settings, to)
    typer.echo(f"The schema is at {to or needed_revision()}.")


def _upgrade(settings: Settings) -> None:
    url = database_url(settings)
    if url is not None:
        given = settings.database
        upgrade(url, connect_timeout=given.connect_timeout_seconds, transaction_pooler=given.transaction_pooler)
    else:
        # The embedded database is migrated whenever it is opened.
        with open_database(None, settings.data_dir):
            pass


def _take_back(settings: Settings, revision: str) -> None:
    if revision == "base":
        raise BadInputError("the revision base is the empty schema: going back to it would drop the votes")
    url = database_url(settings)
    if url is not None:
        given = settings.database
        downgrade(
            url, revision, connect_timeout=given.connect_timeout_seconds, transaction_pooler=given.transaction_pooler
        )
    else:
        with open_database(None, settings.data_dir) as database:
            downgrade(database.url.render_as_string(hide_password=False), revision)
