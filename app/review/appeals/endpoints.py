from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import TypeAdapter

from app.auth.callers import Caller
from app.database.timestamps import StorableTimestamp
from app.http.dependencies import ReadView, Transaction, require
from app.http.pagination import Cursor, Page, PageSize, paginate, read_cursor
from app.http.problems import problem_responses
from app.review.appeals import service as appeals
from app.review.appeals.schemas import Appeal, AppealRequest

router = APIRouter(tags=["annotators"])

_Position = TypeAdapter(tuple[StorableTimestamp, UUID])


@router.post(
    "/annotators/{annotator:path}/appeals", status_code=201, responses=problem_responses(401, 403, 404, 409, 422, 503)
)
def post_appeal(
    annotator: str, appeal: AppealRequest, caller: Annotated[Caller, require("ingest")], conn: Transaction
) -> Appeal:
    """Appeal on an annotator's behalf.

    The arena's backend sends the note of its annotator, named by id or by key. Reviewers see it until they decide.
    Posting twice makes two appeals. Needs scope `ingest`. Problems: `not-authenticated`, `scope-missing`, `not-found`;
    `conflict` where five appeals of this annotator already wait; `invalid` for a blank note.
    """
    return appeals.submit_appeal(conn, annotator, appeal.note, submitted_by=caller.name)


@router.get("/appeals", dependencies=[require("review")], responses=problem_responses(401, 403, 404, 422, 503))
def list_appeals(
    conn: ReadView,
    annotator: Annotated[str | None, Query(description="Only appeals of this annotator, by id or by key.")] = None,
    answered: Annotated[bool, Query(description="Also appeals that a decision has followed.")] = False,
    limit: PageSize = 50,
    cursor: Cursor = None,
) -> Page[Appeal]:
    """List appeals that wait for a decision, the longest waiting first.

    Needs scope `review`. Problems: `not-authenticated`, `scope-missing`, `not-found`; `invalid` for an unknown cursor.
    """
    after = read_cursor(cursor, _Position)
    items = appeals.list_appeals(conn, limit=limit + 1, only_open=not answered, annotator=annotator, after=after)
    return paginate(items, limit, lambda last: (last.submitted_at, last.id))
