"""Opening the database: at a URL, or the embedded one."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from app.database.engine import Database
from app.database.schema import require_current, upgrade
from app.errors import BadInputError


@contextmanager
def open_database(
    url: str | None,
    data_dir: Path,
    *,
    pool_size: int = 10,
    connect_timeout: int = 5,
    connection_options: Mapping[str, object] | None = None,
    transaction_pooler: bool = False,
    creates: bool = True,
    revives: bool = True,
) -> Iterator[Database]:
    """Open the database at `url`, or the embedded one in `data_dir` where there is none.

    The embedded server is shared: the first process starts it and brings it to the current schema, the last one stops
    it. With `revives` this process starts it again when it died; a process of low priority should not, because the
    server inherits the priority. Without `creates` there must be a database already. At a `url` nothing is changed;
    `transaction_pooler` is about it, as in `Database`.

    Raises BadInputError: there is no embedded database yet, and `creates` is false.
    Raises UnavailableError: the database cannot be reached, its server is too old, or its schema is not this version's.
    """
    opened = partial(
        Database, pool_size=pool_size, connect_timeout=connect_timeout, connection_options=connection_options
    )
    if url is None:
        from app.database.embedded.server import EmbeddedServer  # noqa: PLC0415  the extra may not be installed

        server = EmbeddedServer(data_dir)
        if not creates and not server.has_database():
            raise BadInputError(f"there is no database yet in {data_dir}: start `stable-arena serve`, or import votes")
        with server:
            upgrade(server.url)
            with opened(server.url, revive=server.start if revives else None) as database:
                yield database
        return
    with opened(url, transaction_pooler=transaction_pooler) as database:
        require_current(database)
        yield database
