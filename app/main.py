import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

import app as package
from app.api.callers import KnownCallers
from app.api.limits import BodyLimit
from app.api.openapi import install_openapi, operation_id
from app.api.problems import install_problem_handlers
from app.api.requests import RequestTrail
from app.api.routes import PREFIX, install_routes
from app.arena.fitting import FitLimits
from app.arena.ingest import VoteQueue
from app.arena.previews import PolicyPreviews
from app.arena.worker import Worker
from app.settings import Settings
from app.store.opening import open_database
from app.store.schema import needed_revision

# Connections that requests leave to the vote queue, the look-up of keys and the worker.
_RESERVED_CONNECTIONS = 4


def create_app(settings: Settings | None = None) -> FastAPI:
    """Assemble the HTTP service; the database is opened when it starts and closed when it stops."""
    settings = settings or Settings()
    app = FastAPI(
        title="Stable Arena",
        version=package.__version__,
        description="Arena votes in, a leaderboard out that stays put. Errors are RFC 9457 problems.",
        lifespan=_lifespan,
        openapi_url=f"{PREFIX}/openapi.json",
        docs_url=None,  # the pages that FastAPI would serve load their scripts from elsewhere
        redoc_url=None,
        generate_unique_id_function=operation_id,
        redirect_slashes=False,
    )
    app.state.settings = settings
    install_routes(app)
    install_problem_handlers(app)
    install_openapi(app)
    app.add_middleware(BodyLimit, max_bytes=settings.server.max_body_bytes)
    app.add_middleware(RequestTrail)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    settings: Settings = app.state.settings
    url = settings.database_url.get_secret_value() if settings.database_url else None
    pool_size = settings.database.pool_size
    with open_database(
        url,
        settings.data_dir,
        pool_size=pool_size + _RESERVED_CONNECTIONS,
        connect_timeout=settings.database.connect_timeout_seconds,
    ) as database:
        app.state.database = database
        app.state.schema_revision = needed_revision()
        app.state.request_slots = asyncio.Semaphore(pool_size)
        app.state.known_callers = KnownCallers(database)
        queue = VoteQueue(database, queue_size=settings.ingest.queue_size, commit_size=settings.ingest.commit_size)
        app.state.vote_queue = queue
        app.state.previews = previews = PolicyPreviews(database)
        worker = Worker(
            database,
            tick_seconds=settings.worker.tick_seconds,
            lease_seconds=settings.worker.lease_seconds,
            limits=FitLimits(settings.worker.fit_seconds, settings.worker.fit_memory_bytes),
            private_webhooks=settings.webhooks.allow_private_addresses,
        )
        if settings.worker.run_in_server:
            worker.start()
        try:
            yield
        finally:
            previews.stop()
            await queue.close()
            await asyncio.to_thread(worker.stop)
