from fastapi import APIRouter
from pydantic import TypeAdapter

from app.audit import service as audit
from app.audit.service import AuditEntry
from app.http.dependencies import ReadView, require
from app.http.pagination import BigNumber, Cursor, Page, PageSize, paginate, read_cursor
from app.http.problems import problem_responses

router = APIRouter(tags=["annotators"])

_Position = TypeAdapter(tuple[BigNumber])


@router.get("/audit", dependencies=[require("review")], responses=problem_responses(401, 403, 422, 503))
def list_audit(conn: ReadView, limit: PageSize = 50, cursor: Cursor = None) -> Page[AuditEntry]:
    """List every decision and policy change, the newest first.

    The hash of each entry covers the entry before. `stable-arena audit verify` checks all of them. Needs scope
    `review`. Problems: `not-authenticated`, `scope-missing`; `invalid` for an unknown cursor.
    """
    position = read_cursor(cursor, _Position)
    items = audit.list_entries(conn, limit=limit + 1, before=position and position[0])
    return paginate(items, limit, lambda last: (last.number,))
