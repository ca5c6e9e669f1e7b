import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from fastapi import Depends, FastAPI

import app as package
from app.answers.rendered import provide_renderings
from app.api.dependencies import provide_request_slots, refuse_unknown_parameters
from app.api.openapi import install_openapi
from app.api.problems import install_problem_handlers
from app.api.submissions import operation_id
from app.auth.battle_tokens import provide_battle_tokens
from app.auth.oidc.provider import provide_provider
from app.auth.tokens import provide_known_callers
from app.battles.queue import provide_battle_queue
from app.database.engine import Database
from app.database.notices import Notices
from app.guard.back_off import provide_back_off
from app.guard.bodies import BodyGate
from app.guard.limits import provide_limits
from app.guard.middleware import CrossOrigin, RequestLogMiddleware
from app.guard.process_metrics import provide_gauges
from app.guard.stopping import provide_open_answers
from app.imports.preview import provide_file_previews
from app.invitations.voters import provide_voters
from app.leaderboard.newest import provide_newest_state
from app.monitoring.cache import provide_monitoring
from app.naming.known_names import provide_known_names
from app.opening import open_database_of
from app.pages.errors import problem_page
from app.review.impact.service import provide_impacts
from app.review.previews import provide_previews
from app.routes import BODIES, install_routes
from app.settings import Settings, read_settings
from app.snapshots.events import provide_events
from app.state import ProcessState
from app.votes.batches import provide_batches
from app.votes.service import provide_vote_queue

# Connections for the queues of votes and battles, for keys, figures, leaderboards and answers as HTML, and for the
# worker's threads.
RESERVED_CONNECTIONS = 12

PROVIDERS: tuple[Callable[[ProcessState], None], ...] = (
    provide_open_answers,
    provide_gauges,
    provide_limits,
    provide_back_off,
    provide_known_callers,
    provide_battle_tokens,
    provide_provider,
    provide_request_slots,
    provide_known_names,
    provide_events,
    provide_newest_state,
    provide_vote_queue,
    provide_batches,
    provide_voters,
    provide_renderings,
    provide_battle_queue,
    provide_impacts,
    provide_previews,
    provide_file_previews,
    provide_monitoring,
)
"""What the rooms hold while the process runs, in this order; it is closed in the reverse order."""


def create_app(settings: Settings | None = None) -> FastAPI:
    """Assemble the HTTP service. It opens the database when it starts and closes it when it stops."""
    settings = settings or read_settings()
    app = FastAPI(
        title="Stable Arena",
        version=package.__version__,
        description="Arena votes in, a leaderboard out that stays put. Errors are RFC 9457 problems.",
        lifespan=_lifespan,
        openapi_url=None,  # FastAPI writes the description anew for every request; install_openapi does not
        docs_url=None,  # FastAPI's own page loads its scripts from another host; ours is in app/pages
        redoc_url=None,
        generate_unique_id_function=operation_id,
        redirect_slashes=False,
        # Asked for every request, at 5 % of a vote's processor time; traces would have the annotators' keys in paths.
        telemetry={"tracing": False, "metrics": False, "logs": False},
        dependencies=[Depends(refuse_unknown_parameters)],
    )
    app.state.settings = settings
    install_routes(app)
    install_problem_handlers(app, problem_page)
    install_openapi(app, public_leaderboard=settings.public_leaderboard, bodies=BODIES)
    app.add_middleware(BodyGate, settings=settings)
    app.add_middleware(RequestLogMiddleware, hide_keys=settings.pseudonym_key is not None)
    app.add_middleware(CrossOrigin, origins=settings.server.cors_origins, public=settings.public_leaderboard)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    settings: Settings = app.state.settings
    with open_database_of(settings, extra_connections=RESERVED_CONNECTIONS) as database:
        async with running_process(app, database):
            yield


@asynccontextmanager
async def running_process(app: FastAPI, database: Database) -> AsyncIterator[None]:
    """Let every room provide its part, on an open database, and run the worker if it is to run here; stop all at last.

    Needs a running event loop.
    """
    settings: Settings = app.state.settings
    app.state.process = state = ProcessState()
    state[Settings], state[Database] = settings, database
    state[Notices] = notices = Notices(database)
    state.closing.push_async_callback(asyncio.to_thread, notices.stop)
    worker = None
    if settings.worker.run_in_server:
        from app.worker import Worker  # noqa: PLC0415  it loads the mathematics, for a process that needs it

        worker = Worker(database, settings, notices=notices)
        state.closing.push_async_callback(asyncio.to_thread, worker.stop)
    async with state.closing:
        for provide in PROVIDERS:
            provide(state)
        if worker is not None:
            worker.start()
        yield
