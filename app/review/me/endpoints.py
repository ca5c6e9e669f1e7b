from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request

from app.api.dependencies import ReadView, require
from app.api.pagination import Cursor, Id, Page, PageSize, paginate, read_single
from app.auth.callers import Caller
from app.errors import ScopeMissingError
from app.guard.admission import authorise, bearer_secret, key_dependency
from app.invitations.voters import Voter, admit_voter, is_voter_token
from app.naming.names import MAX_NAME_LENGTH
from app.review.me import service as me
from app.review.me.order import find_own_number, order_of
from app.review.me.schemas import OwnOrder, OwnStanding, OwnVote

router = APIRouter(prefix="/annotators/me", tags=["annotators"])

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


@router.get("")
def get_self(annotator: Self, caller: TokenHolder, conn: ReadView) -> OwnStanding:
    """Show an annotator their own standing, a summary of their votes, and what became of their appeals.

    For a page that holds an ingest token bound to the annotator. Nothing of other annotators is shown, and neither
    abilities nor evidence. Problems: `not-authenticated`; `scope-missing` for a key, or for a token that is bound to
    no annotator; `foreign-annotator` if the token is bound to another annotator; `invalid` without `annotator`.
    """
    return me.describe_self(conn, me.find_self(conn, caller, annotator))


async def _self_or_voter(request: Request) -> Caller | Voter:
    secret = bearer_secret(request)
    if secret is not None and is_voter_token(secret):
        return await admit_voter(request.scope, secret)
    return await _bound(await authorise(request, "ingest", tokens=True))


@router.get("/order")
def get_own_order(
    holder: Annotated[Caller | Voter, key_dependency(_self_or_voter, "ingest")],
    conn: ReadView,
    annotator: Annotated[
        str | None, Query(min_length=1, max_length=MAX_NAME_LENGTH, description="With an ingest token: the key.")
    ] = None,
) -> OwnOrder:
    """Show an annotator their own order of the models beside everyone's, after 20 votes.

    Bradley-Terry of the annotator's votes with a prior, so that a few votes say little. For a page that holds the token
    of an invitation, or an ingest token that is bound to the annotator. Problems: `not-authenticated`, `not-invited`;
    `scope-missing` for a key; `foreign-annotator` if the token is bound to another annotator; `invalid` for an ingest
    token without `annotator`.
    """
    return order_of(conn, find_own_number(conn, holder, annotator))


@router.get("/votes")
def list_own_votes(
    annotator: Self, caller: TokenHolder, conn: ReadView, limit: PageSize = 50, cursor: Cursor = None
) -> Page[OwnVote]:
    """List an annotator's own votes, the one recorded last first.

    As for `GET /annotators/me`. Problems: `not-authenticated`, `scope-missing`, `foreign-annotator`; `invalid` without
    `annotator`, or for an unknown cursor.
    """
    found = me.find_self(conn, caller, annotator)
    items = me.list_own_votes(conn, found, limit=limit + 1, before=read_single(cursor, Id))
    return paginate(items, limit, lambda last: (last.id,))
