from pathlib import Path

import psycopg
from psycopg import sql
from sqlalchemy import URL

from app.database.embedded.cluster import SUPERUSER
from app.database.embedded.sockets import PORT

NAME = "stable_arena"


def ensure_database(socket: Path) -> None:
    """Make the service's role and database if they are missing.

    The role is an ordinary one that may create databases, as on a server in production, so that nothing
    comes to need a superuser unnoticed.
    """
    name = sql.Identifier(NAME)
    with psycopg.connect(host=str(socket), port=PORT, user=SUPERUSER, dbname="postgres", autocommit=True) as connection:
        if not connection.execute("SELECT FROM pg_roles WHERE rolname = %s", [NAME]).rowcount:
            connection.execute(sql.SQL("CREATE ROLE {} LOGIN CREATEDB").format(name))
        if not connection.execute("SELECT FROM pg_database WHERE datname = %s", [NAME]).rowcount:
            connection.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(name, name))


def database_url(socket: Path) -> str:
    """Return the URL of the service's database; the port is in it lest PGPORT decide."""
    url = URL.create("postgresql+psycopg", username=NAME, database=NAME, query={"host": str(socket), "port": str(PORT)})
    return url.render_as_string(hide_password=False)
