from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel

from app.database.schema import require_current
from app.http.dependencies import ProcessServices
from app.http.problems import problem_responses

router = APIRouter(tags=["health"])


class Health(BaseModel):
    """The service is well; otherwise the answer is a problem."""

    status: Literal["ok"] = "ok"


@router.get("/healthz")
async def get_health() -> Health:
    """Answer while the process runs.

    This does not check the database, because restarting the service does not mend it. Needs no key.
    """
    return Health()


@router.get("/readyz", responses=problem_responses(503))
def get_readiness(services: ProcessServices) -> Health:
    """Answer while requests can be served: the database answers and has the schema of this version.

    Needs no key. Problems: `database-unreachable`, `database-busy`, `database-too-old`, `schema-behind`.
    """
    require_current(services.database, services.schema_revision)
    return Health()
