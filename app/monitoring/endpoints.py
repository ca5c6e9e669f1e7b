import asyncio
from typing import Annotated, Literal

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4
from pydantic import BaseModel

from app.api.dependencies import held
from app.api.problems import problem_responses
from app.auth.secrets import digest
from app.errors import NotAuthenticatedError, ScopeMissingError, UnavailableError
from app.guard import process_metrics
from app.guard.admission import authorise, bearer_secret, key_dependency
from app.guard.process_metrics import Gauges
from app.guard.strangers import count_open, open_to_all
from app.monitoring.cache import FiguresCache, MetricsReaders, Readiness
from app.monitoring.families import expose_figures
from app.settings import Settings
from app.state import state_of

router = APIRouter(tags=["health"])


class Health(BaseModel):
    """The service is well; otherwise the answer is a problem."""

    status: Literal["ok"] = "ok"


@router.get("/healthz", dependencies=[open_to_all])
async def get_health() -> Health:
    """Answer while the process runs.

    This does not check the database, because restarting the service does not mend it. Needs no key.
    """
    return Health()


@router.get("/readyz", dependencies=[open_to_all], responses=problem_responses(503))
async def get_readiness(readiness: Annotated[Readiness, held(Readiness)]) -> Health:
    """Answer while requests can be served: the database answers and has the schema of this version.

    The answer may be half a second old. Needs no key. Problems: `database-unreachable`, `database-busy`,
    `database-too-old`, `schema-behind`.
    """
    await readiness.require()
    return Health()


async def _require_reader(request: Request) -> None:
    state, secret = state_of(request.scope), bearer_secret(request)
    if secret is None and state[Settings].public_metrics:
        await count_open(request)
        return
    readers, key = state[MetricsReaders], digest(secret or "")
    try:
        await authorise(request, "read")
    except UnavailableError:
        if key not in readers:
            raise
    except (NotAuthenticatedError, ScopeMissingError):
        readers.pop(key, None)
        raise
    readers[key] = True


@router.get(
    "/metrics",
    dependencies=[key_dependency(_require_reader, "read")],
    response_class=Response,
    responses={
        200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "In Prometheus' text format."},
    },
)
async def get_metrics(
    kept: Annotated[FiguresCache, held(FiguresCache)], gauges: Annotated[Gauges, held(Gauges)]
) -> Response:
    """Return the service's metrics in the text format of Prometheus.

    They are this process's requests and queues, and figures of the whole service from the database, at most a few
    seconds old. Without the database it still answers, with `stable_arena_database_up 0`. Needs scope `read`, unless
    the service is set to show metrics without a key. A key that was accepted before also works while the database is
    away. Problems: `not-authenticated`, `scope-missing`; `database-unreachable`, `database-busy` for a new key.
    """
    figures = await kept.read()
    gauges.set()
    content = await asyncio.to_thread(lambda: process_metrics.expose() + expose_figures(figures))
    return Response(content, media_type=CONTENT_TYPE_PLAIN_0_0_4)
