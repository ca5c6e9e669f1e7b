import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from fastapi import Depends, FastAPI

import app as package
from app.api.dependencies import refuse_unknown_parameters
from app.api.kept_answers import KeptAnswers
from app.api.openapi import install_openapi, operation_id
from app.api.problems import install_problem_handlers
from app.auth.battle_tokens import read_battle_tokens
from app.auth.callers import KnownCallers
from app.auth.oidc.provider import OpenIdProvider
from app.auth.tokens import authenticate_any
from app.battles.queue import BattleQueue
from app.database.engine import Database
from app.database.schema import needed_revision
from app.guard.back_off import BackOff
from app.guard.bodies import BodyGate
from app.guard.compression import Compression
from app.guard.cross_origin import CrossOrigin
from app.guard.limits import RateLimits
from app.guard.middleware import RequestLogMiddleware
from app.guard.stopping import at_stop_signal
from app.leaderboard.newest import NewestState
from app.monitoring.cache import FiguresCache, MetricsReaders
from app.monitoring.endpoints import keep_setting_gauges
from app.naming.known_names import KnownNames
from app.opening import open_database_of
from app.pages.errors import problem_page
from app.refits.fit.process import FitResources
from app.review.impact.service import Impacts
from app.review.previews import PolicyPreviews
from app.routes import BODIES, install_routes
from app.services import Services
from app.settings import Settings, read_settings
from app.snapshots.events import SnapshotEvents
from app.votes.service import VoteQueue
from app.worker import Worker

# Connections for the queues of votes and battles, for keys, figures and leaderboards, and for the worker's threads.
RESERVED_CONNECTIONS = 10


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
        dependencies=[Depends(refuse_unknown_parameters)],
    )
    app.state.settings = settings
    install_routes(app)
    install_problem_handlers(app, problem_page)
    install_openapi(app, public_leaderboard=settings.public_leaderboard, bodies=BODIES)
    app.add_middleware(BodyGate, settings=settings)
    app.add_middleware(Compression)
    app.add_middleware(RequestLogMiddleware, hide_keys=settings.pseudonym_key is not None)
    app.add_middleware(CrossOrigin, origins=settings.server.cors_origins, public=settings.public_leaderboard)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    settings: Settings = app.state.settings
    with open_database_of(settings, extra_connections=RESERVED_CONNECTIONS) as database:
        async with running_services(app, database):
            yield


@asynccontextmanager
async def running_services(app: FastAPI, database: Database) -> AsyncIterator[None]:
    """Build what the process holds, on an open database, and the worker if it is to run here; stop both at the end."""
    settings: Settings = app.state.settings
    app.state.services = services = build_services(settings, database)
    gauges = asyncio.create_task(keep_setting_gauges(services))
    worker = Worker(database, settings)
    if settings.worker.run_in_server:
        worker.start()
    try:
        with at_stop_signal(services.end_open_answers):
            yield
    finally:
        gauges.cancel()
        await services.close()
        await asyncio.to_thread(worker.stop)


def build_services(settings: Settings, database: Database) -> Services:
    """Build what a process holds, with empty caches. Needs a running event loop."""
    known_names, worker = KnownNames(database), settings.worker
    with database.read() as conn:
        battle_tokens = read_battle_tokens(conn)
    newest_state = NewestState(database, patience_seconds=settings.database.connect_timeout_seconds)
    resources = FitResources(worker.fit_seconds, worker.fit_memory_bytes, settings.fit.scheduler)
    return Services(
        settings=settings,
        database=database,
        schema_revision=needed_revision(),
        request_slots=asyncio.Semaphore(settings.database.pool_size),
        rate_limits=RateLimits(
            per_key=settings.server.requests_per_minute,
            per_address=settings.server.anonymous_requests_per_minute,
            at_once=settings.server.connections_per_address,
            token_votes=settings.ingest.votes_per_token,
            token_votes_per_annotator=settings.ingest.token_votes_per_annotator,
        ),
        back_off=BackOff(settings.server.unread_bodies_per_minute),
        known_callers=KnownCallers(partial(authenticate_any, database)),
        known_names=known_names,
        vote_queue=VoteQueue(
            database,
            queue_size=settings.ingest.queue_size,
            names=known_names,
        ),
        battle_queue=BattleQueue(
            database,
            token_seconds=settings.battles.token_seconds,
            queue_size=settings.ingest.queue_size,
            names=known_names,
        ),
        battle_tokens=battle_tokens,
        newest_state=newest_state,
        answers=KeptAnswers(newest_state.read),
        snapshot_events=SnapshotEvents(database),
        impacts=Impacts(database, resources),
        previews=PolicyPreviews(database, resources),
        figures=FiguresCache(database),
        metrics_readers=MetricsReaders(),
        oidc=_provider(settings),
    )


def _provider(settings: Settings) -> OpenIdProvider | None:
    chosen = settings.oidc
    if chosen.issuer is None or chosen.client_id is None or chosen.client_secret is None:
        return None
    return OpenIdProvider(
        chosen.issuer,
        chosen.client_id,
        chosen.client_secret.get_secret_value(),
        name_claim=chosen.name_claim,
        scopes_claim=chosen.scopes_claim,
        grants=chosen.grants,
    )
