from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field, StrictBool, TypeAdapter

from app.auth.service import Caller
from app.database.timestamps import StorableTimestamp
from app.http.dependencies import ReadView, Transaction, require
from app.http.pagination import Cursor, Page, PageSize, paginate, read_cursor
from app.http.problems import problem_responses
from app.http.texts import Reason
from app.refits import service as refits
from app.refits.service import Refit

router = APIRouter(prefix="/refits", tags=["refits"])

_Position = TypeAdapter(tuple[StorableTimestamp, UUID])


class RefitRequest(BaseModel):
    """How a refit is asked for."""

    model_config = ConfigDict(extra="forbid")

    accept_exclusions: StrictBool = Field(
        False,
        description="Publish even if more votes are excluded than the policy allows, or the annotators are in two "
        "opposed camps. Who accepts it, and the reason, is put on the audit log.",
    )
    reason: Reason | None = Field(
        None,
        description="Why the exclusions are accepted. Do not name a person or a key here: reasons are kept for ever.",
    )


@router.post("", status_code=202, responses=problem_responses(401, 403, 422, 503))
def post_refit(
    request: Request,
    response: Response,
    caller: Annotated[Caller, require("admin")],
    conn: Transaction,
    body: RefitRequest | None = None,
) -> Refit:
    """Ask for a refit now.

    A worker runs it; follow `Location` to see it end. While one waits to be run, asking again returns the same one.
    Needs scope `admin`. Problems: `not-authenticated`, `scope-missing`; `invalid`, also for a reason without
    `accept_exclusions`.
    """
    asked = body or RefitRequest()
    refit_id = refits.request_refit(conn, trigger="request", requested_by=caller.name, **asked.model_dump())
    response.headers["Location"] = request.app.url_path_for("get_refit", refit_id=str(refit_id))
    return refits.find_refit(conn, refit_id)


@router.get("", dependencies=[require("read")], responses=problem_responses(401, 403, 422, 503))
def list_refits(conn: ReadView, limit: PageSize = 50, cursor: Cursor = None) -> Page[Refit]:
    """List refits, the newest request first.

    Needs scope `read`. Problems: `not-authenticated`, `scope-missing`; `invalid` for an unknown cursor.
    """
    items = refits.list_refits(conn, limit=limit + 1, before=read_cursor(cursor, _Position))
    return paginate(items, limit, lambda last: (last.requested_at, last.id))


@router.get("/{refit_id}", dependencies=[require("read")], responses=problem_responses(401, 403, 404, 422, 503))
def get_refit(refit_id: UUID, conn: ReadView) -> Refit:
    """Show how far a refit is and how it ended.

    Needs scope `read`. Problems: `not-authenticated`, `scope-missing`, `not-found`.
    """
    return refits.find_refit(conn, refit_id)


@router.post("/{refit_id}/cancel", responses=problem_responses(401, 403, 404, 409, 422, 503))
def cancel_refit(refit_id: UUID, _caller: Annotated[Caller, require("admin")], conn: Transaction) -> Refit:
    """Cancel a refit.

    One that waits ends at once, one under way within a few seconds; the leaderboard stays as it is. Needs scope
    `admin`. Problems: `not-authenticated`, `scope-missing`, `not-found`; `conflict` where it has ended already.
    """
    return refits.cancel_refit(conn, refit_id)
