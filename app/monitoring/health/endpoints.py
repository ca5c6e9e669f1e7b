from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel

from app.database.schema import require_current
from app.http.dependencies import ProcessServices
from app.http.problems import problem_responses

router = APIRouter(tags=["health"])


class Health(BaseModel):
    """All is well; anything else is a problem."""

    status: Literal["ok"] = "ok"


@router.get("/healthz")
async def get_health() -> Health:
    """Tell that the process answers.

    Says nothing about the database: restarting the service does not mend one. Needs no key.
    """
    return Health()


@router.get("/readyz", responses=problem_responses(503))
def get_readiness(services: ProcessServices) -> Health:
    """Tell whether requests can be served: the database answers and has the schema of this version.

    Needs no key. Problems: `database-unreachable`, `database-busy`, `database-too-old`, `schema-behind`.
    """
    require_current(services.database, services.schema_revision)
    return Health()
