from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import TypeAdapter

from app.api.dependencies import ReadView, require
from app.api.pagination import BigNumber, Cursor, Name, Page, PageSize, paginate, read_cursor
from app.api.problems import problem_responses
from app.audit import service as audit
from app.audit.service import AuditEntry

router = APIRouter(tags=["annotators"])

_Position = TypeAdapter(tuple[BigNumber])


@router.get("/audit", dependencies=[require("review:read")], responses=problem_responses(401, 403, 422, 503))
def list_audit(
    conn: ReadView,
    limit: PageSize = 50,
    cursor: Cursor = None,
    action: Annotated[
        Name | None, Query(description="Only this action, or all that begin with it: decision, decision.exclude.")
    ] = None,
    actor: Annotated[Name | None, Query(description="Only what this key did, by its name.")] = None,
    subject: Annotated[
        Name | None, Query(description="Only what was done to this: an id, a name or a version.")
    ] = None,
) -> Page[AuditEntry]:
    """List what admins and reviewers did, the newest first: decisions, policies, keys, models, webhooks and more.

    The hash of each entry covers the entry before. `stable-arena audit verify` checks all of them. Needs scope
    `review:read`. Problems: `not-authenticated`, `scope-missing`; `invalid` for an unknown cursor.
    """
    position = read_cursor(cursor, _Position)
    before = position and position[0]
    items = audit.list_entries(conn, limit=limit + 1, before=before, action=action, actor=actor, subject=subject)
    return paginate(items, limit, lambda last: (last.number,))
