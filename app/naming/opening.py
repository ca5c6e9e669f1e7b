from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.database.engine import Database
from app.database.schema import require_current, upgrade
from app.naming.service import Naming


@contextmanager
def open_database(
    url: str | None,
    data_dir: Path,
    *,
    pool_size: int = 10,
    connect_timeout: int = 5,
    naming: Naming | None = None,
    revives: bool = True,
) -> Iterator[Database]:
    """Open the database at `url`, or the embedded one in `data_dir` where there is none.

    The embedded server is started if nobody else has, brought to the current schema, started again should it die,
    and stopped by whoever closes it last. Who does not start it again (`revives`) waits until another does: a server
    is as nice as the process that starts it. A server of one's own is only looked at: too old a server or another
    schema is an error.
    """
    if url is None:
        from app.database.embedded.server import EmbeddedServer  # noqa: PLC0415  the extra may not be installed

        server = EmbeddedServer(data_dir)
        embedded_url = server.start()
        try:
            upgrade(embedded_url)
            with Database(
                embedded_url,
                pool_size=pool_size,
                connect_timeout=connect_timeout,
                naming=naming,
                revive=server.start if revives else None,
                embedded=True,
            ) as database:
                yield database
        finally:
            server.release()
        return
    with Database(url, pool_size=pool_size, connect_timeout=connect_timeout, naming=naming) as database:
        require_current(database)
        yield database
