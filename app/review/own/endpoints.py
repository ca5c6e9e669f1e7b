from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Query
from pydantic import TypeAdapter

from app.api.dependencies import ReadView, require
from app.api.pagination import Cursor, Page, PageSize, paginate, read_cursor
from app.api.problems import problem_responses
from app.auth.callers import Caller
from app.errors import ScopeMissingError
from app.naming.names import MAX_NAME_LENGTH
from app.review.own import service as own
from app.review.own.schemas import OwnStanding, OwnVote

router = APIRouter(prefix="/annotators/me", tags=["annotators"])

_Position = TypeAdapter(tuple[UUID])
Self = Annotated[
    str,
    Query(
        min_length=1,
        max_length=MAX_NAME_LENGTH,
        description="The annotator's key, as votes state it. It must be the one that the token is bound to.",
    ),
]


async def _bound(caller: Annotated[Caller, require("ingest", tokens=True)]) -> Caller:
    if caller.binding is None:
        raise ScopeMissingError("this needs an ingest token that is bound to the annotator")
    return caller


TokenHolder = Annotated[Caller, Depends(_bound)]


@router.get("", responses=problem_responses(401, 403, 422, 503))
def get_self(annotator: Self, caller: TokenHolder, conn: ReadView) -> OwnStanding:
    """Show an annotator their own standing, a summary of their votes, and what became of their appeals.

    For a page that holds an ingest token bound to the annotator. Nothing of other annotators is shown, and neither
    abilities nor evidence. Problems: `not-authenticated`; `scope-missing` for a key, or for a token that is bound to
    no annotator; `foreign-annotator` if the token is bound to another annotator; `invalid` without `annotator`.
    """
    return own.describe_self(conn, own.find_self(conn, caller, annotator))


@router.get("/votes", responses=problem_responses(401, 403, 422, 503))
def list_own_votes(
    annotator: Self, caller: TokenHolder, conn: ReadView, limit: PageSize = 50, cursor: Cursor = None
) -> Page[OwnVote]:
    """List an annotator's own votes, the one recorded last first.

    As for `GET /annotators/me`. Problems: `not-authenticated`, `scope-missing`, `foreign-annotator`; `invalid` without
    `annotator`, or for an unknown cursor.
    """
    position = read_cursor(cursor, _Position)
    found = own.find_self(conn, caller, annotator)
    items = own.list_own_votes(conn, found, limit=limit + 1, before=position and position[0])
    return paginate(items, limit, lambda last: (last.id,))
