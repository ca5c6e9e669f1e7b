from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Request, Response
from pydantic import TypeAdapter

from app.api.dependencies import ReadView, Transaction, require
from app.api.pagination import Cursor, Page, PageSize, paginate, read_cursor
from app.api.problems import problem_responses
from app.auth.callers import Caller
from app.database.timestamps import StorableTimestamp
from app.refits import service as refits
from app.refits.schemas import Refit, RefitRequest

router = APIRouter(prefix="/refits", tags=["refits"])

_Position = TypeAdapter(tuple[StorableTimestamp, UUID])


@router.post("", status_code=202)
def post_refit(
    request: Request,
    response: Response,
    caller: Annotated[Caller, require("admin")],
    conn: Transaction,
    body: RefitRequest | None = None,
) -> Refit:
    """Request a refit.

    A worker runs it; `Location` shows its state. While a refit waits to run, another request returns the same one.
    Needs scope `admin`. Problems: `not-authenticated`, `scope-missing`; `invalid`, also for a reason without
    `accept_exclusions`.
    """
    options = body or RefitRequest()
    refit_id = refits.request_refit(conn, trigger="request", requested_by=caller.name, **options.model_dump())
    response.headers["Location"] = request.app.url_path_for("get_refit", refit_id=str(refit_id))
    return refits.find_refit(conn, refit_id)


@router.get("", dependencies=[require("read")])
def list_refits(conn: ReadView, limit: PageSize = 50, cursor: Cursor = None) -> Page[Refit]:
    """List refits, the newest request first.

    Needs scope `read`. Problems: `not-authenticated`, `scope-missing`; `invalid` for an unknown cursor.
    """
    items = refits.list_refits(conn, limit=limit + 1, before=read_cursor(cursor, _Position))
    return paginate(items, limit, lambda last: (last.requested_at, last.id))


@router.get("/{refit_id}", dependencies=[require("read")], responses=problem_responses(404))
def get_refit(refit_id: UUID, conn: ReadView) -> Refit:
    """Show the state of a refit and how it ended.

    Needs scope `read`. Problems: `not-authenticated`, `scope-missing`, `not-found`.
    """
    return refits.find_refit(conn, refit_id)


@router.post("/{refit_id}/cancel", responses=problem_responses(404, 409))
def cancel_refit(refit_id: UUID, _caller: Annotated[Caller, require("admin")], conn: Transaction) -> Refit:
    """Cancel a refit.

    A waiting refit ends at once, a running one within a few seconds. The leaderboard stays as it is. Needs scope
    `admin`. Problems: `not-authenticated`, `scope-missing`, `not-found`; `conflict` where it has ended.
    """
    return refits.cancel_refit(conn, refit_id)
