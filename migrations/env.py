from alembic import context
from sqlalchemy import Connection
from sqlalchemy.dialects.postgresql.base import ischema_names

from app.database.engine import Database
from app.database.tables import Xid8, metadata
from app.settings import Settings

# SQLAlchemy does not know this type when it reads the tables of a database.
ischema_names["xid8"] = Xid8


def run(connection: Connection) -> None:
    context.configure(connection=connection, target_metadata=metadata)
    with context.begin_transaction():
        context.run_migrations()


given = context.config.attributes.get("connection")
if given is not None:
    run(given)
else:
    # A developer runs alembic itself, for example `alembic revision --autogenerate`.
    url = Settings().database_url
    if url is None:
        message = "set STABLE_ARENA_DATABASE_URL to the database that alembic compares with the models"
        raise SystemExit(message)
    with Database(url.get_secret_value()) as database, database.begin() as own:
        run(own)
