"""What a process remembers for `/metrics`: the figures of the last seconds, and the keys that may read them."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta

import structlog
from cachetools import LRUCache, TTLCache, cached
from sqlalchemy.exc import DBAPIError

from app.database.engine import Database
from app.database.schema import require_current
from app.errors import UnavailableError
from app.guard.process_metrics import Gauges, highest_gauge
from app.monitoring import queries as store
from app.monitoring.service import ServiceFigures, read_figures, sum_ended_refits
from app.snapshots.vote_sets import NewVotes
from app.state import ProcessState

log = structlog.get_logger()

_FIGURES, _READY = "figures", "ready"
_MOST_READERS = 100
_CONNECTIONS = highest_gauge("stable_arena_database_connections", "Connections to the database in use")
_CONNECTIONS_LIMIT = highest_gauge(
    "stable_arena_database_connections_limit", "Connections to the database there may be"
)


class FiguresCache:
    """Reads the service's figures once for all scrapes of a few seconds. Belongs to one event loop.

    A scrape waits at most `patience_seconds` for the database and then gets None. The query goes on, and a later scrape
    gets its answer.
    """

    def __init__(self, database: Database, *, keep_seconds: float = 5.0, patience_seconds: float = 3.0) -> None:
        self._database = database
        self._patience_seconds = patience_seconds
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="metrics")
        self._kept: TTLCache[str, ServiceFigures | None] = TTLCache(1, keep_seconds)
        self._query: asyncio.Future[ServiceFigures | None] | None = None
        self._failing = False
        self._new_votes = NewVotes()
        self._sum_refits = cached(LRUCache(1), key=lambda _, last: last)(sum_ended_refits)

    async def read(self) -> ServiceFigures | None:
        """Return figures of the last few seconds; None while the database does not give them."""
        with suppress(KeyError):
            return self._kept[_FIGURES]
        if self._query is None:
            self._query = asyncio.get_running_loop().run_in_executor(self._thread, self._read)
            self._query.add_done_callback(self._keep)
        answered, _ = await asyncio.wait({self._query}, timeout=self._patience_seconds)
        return answered.pop().result() if answered else None

    def close(self) -> None:
        """Stop reading."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _keep(self, answer: asyncio.Future[ServiceFigures | None]) -> None:
        self._query = None
        if not answer.cancelled() and answer.exception() is None:
            self._kept[_FIGURES] = answer.result()

    def _read(self) -> ServiceFigures | None:
        try:
            with self._database.read() as conn:
                store.limit_statements(conn, timedelta(seconds=2 * self._patience_seconds))
                figures = read_figures(conn, self._sum_refits, self._new_votes.since)
        except Exception as error:  # any error: the process's own metrics are still served
            if not self._failing:
                expected = isinstance(error, UnavailableError | DBAPIError)
                log.warning("figures_unavailable", detail=" ".join(str(error).split())[:300], exc_info=not expected)
            self._failing = True
            return None
        self._failing = False
        return figures


class Readiness:
    """Asks the database whether requests can be served, once for all probes that come meanwhile or soon after a yes.

    Belongs to one event loop.
    """

    def __init__(self, database: Database, *, keep_seconds: float = 0.5) -> None:
        self._database = database
        self._ready: TTLCache[str, bool] = TTLCache(1, keep_seconds)
        self._asking: asyncio.Task[None] | None = None

    async def require(self) -> None:
        """Raise an UnavailableError unless the database answers and has the schema of this version."""
        if _READY in self._ready:
            return
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(asyncio.to_thread(require_current, self._database))
        await asyncio.shield(self._asking)
        self._ready[_READY] = True


class MetricsReaders(LRUCache[bytes, bool]):
    """Hashes of API keys that have read `/metrics` before. They may read it while the database cannot check them."""


def provide_monitoring(state: ProcessState) -> None:
    """Hold what is remembered for `/metrics`, and watch the connections to the database."""
    database = state[Database]
    state[FiguresCache] = figures = FiguresCache(database)
    state[MetricsReaders] = MetricsReaders(_MOST_READERS)
    state[Readiness] = Readiness(database)
    state[Gauges].watch(_CONNECTIONS, database.pool.checkedout)
    state[Gauges].watch(_CONNECTIONS_LIMIT, database.pool.size)
    state.closing.callback(figures.close)
