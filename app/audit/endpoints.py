from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field, TypeAdapter

from app.audit import service as audit
from app.audit.service import AuditEntry
from app.http.dependencies import ReadView, require
from app.http.pagination import BigNumber, PageSize, read_cursor, write_cursor
from app.http.problems import problem_responses

router = APIRouter(tags=["annotators"])

_Position = TypeAdapter(tuple[BigNumber])


class AuditPage(BaseModel):
    """Entries of the audit log, the newest first."""

    items: list[AuditEntry]
    next_cursor: str | None = Field(description="Passed as `cursor`, gives the next page; null on the last.")


@router.get("/audit", dependencies=[require("review")], responses=problem_responses(401, 403, 422, 503))
def list_audit(conn: ReadView, limit: PageSize = 50, cursor: Annotated[str | None, Query()] = None) -> AuditPage:
    """List every decision and policy change, the newest first.

    Each entry's hash covers the one before it; `stable-arena audit verify` checks them all. Needs scope `review`.
    Problems: `not-authenticated`, `scope-missing`; `invalid` for an unknown cursor.
    """
    position = read_cursor(cursor, _Position)
    items = audit.list_entries(conn, limit=limit + 1, before=position and position[0])
    last = items[limit - 1] if len(items) > limit else None
    return AuditPage(items=items[:limit], next_cursor=last and write_cursor(last.number))
