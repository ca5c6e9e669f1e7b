"""Annotators: the search, the page of each, and decisions."""

from contextlib import suppress
from typing import Annotated, Literal
from uuid import UUID

from fastapi import Form, Query, Response
from pydantic import TypeAdapter

from app.annotators import service as annotators
from app.annotators.schemas import Action
from app.api.dependencies import ReadView, Transaction, held
from app.api.pagination import Cursor, Name, Number, paginate, read_cursor
from app.api.texts import Reason
from app.errors import NotFoundError, StableArenaError
from app.pages.console.annotators.view import describe_decision, view_case, view_impact
from app.pages.console.rendering import Reader, Reviewer, console_router
from app.rating.settings import Standing
from app.review import service as reviews
from app.review.evidence.annotator_votes import list_annotator_votes
from app.review.impact.service import ImpactBusyError, Impacts
from app.votes.retractions.service import find_vote

router = console_router("annotators")

_ON_A_PAGE = 50
_Position = TypeAdapter(tuple[float, Number])
_KeyPosition = TypeAdapter(tuple[Name])
_VotePosition = TypeAdapter(tuple[UUID])


@router.get("")
def get_annotators(
    console: Reader,
    conn: ReadView,
    q: Annotated[str, Query(max_length=500)] = "",
    standing: Standing | Literal[""] = "",
    cursor: Cursor = None,
) -> Response:
    """Search annotators by the beginning of their key or by their id; without a text list them, the worst first."""
    text = q.strip()
    if text:
        position = read_cursor(cursor, _KeyPosition)
        found = annotators.search_annotators(
            conn, text, limit=_ON_A_PAGE + 1, standing=standing or None, after=position and position[0]
        )
        page = paginate(found, _ON_A_PAGE, lambda last: (last.annotator,))
    else:
        after = read_cursor(cursor, _Position)
        found = annotators.list_annotators(conn, limit=_ON_A_PAGE + 1, standing=standing or None, after=after)
        page = paginate(found, _ON_A_PAGE, lambda last: last.position)
    return console.page("annotators/search.html",
        found=page.items, next_cursor=page.next_cursor, q=text, standing=standing, first=cursor is None,
    )  # fmt: skip


@router.get("/{annotator_id}")
def get_annotator(annotator_id: UUID, console: Reader, conn: ReadView, queue: bool = False) -> Response:
    """Show an annotator: standing, the case as pictures, decisions and appeals."""
    detail, votes = reviews.find_detail(conn, str(annotator_id)), []
    for one in detail.evidence.surprising if detail.evidence else ():
        with suppress(NotFoundError):
            votes.append(find_vote(conn, one.id))
    shown = view_case(detail, reviews.rule_used(conn), votes)
    following = reviews.next_review(conn, annotator_id) if queue else None
    return console.page("annotators/page.html", queue=queue, following=following, **shown)


# A plain function without a transaction: it may wait for a fit.
@router.get("/{annotator_id}/impact")
def get_impact(
    annotator_id: UUID, console: Reader, impacts: Annotated[Impacts, held(Impacts)], exact: bool = False
) -> Response:
    """Show how the leaderboard would move without an annotator, or with one that does not count."""
    try:
        impact = impacts.impact(str(annotator_id), exact=exact)
    except StableArenaError as error:
        if "hx-request" not in console.request.headers or isinstance(error, NotFoundError):
            raise
        again = isinstance(error, ImpactBusyError)
        return console.page("annotators/no_impact.html", again=again, reason=error.detail)
    return console.page("annotators/impact.html", **view_impact(impact))


@router.get("/{annotator_id}/votes")
def get_votes(annotator_id: UUID, console: Reader, conn: ReadView, cursor: Cursor = None) -> Response:
    """List an annotator's votes, the one recorded last first."""
    position = read_cursor(cursor, _VotePosition)
    found = annotators.find_annotator(conn, str(annotator_id))
    votes = list_annotator_votes(conn, found, limit=_ON_A_PAGE + 1, before=position and position[0])
    page = paginate(votes, _ON_A_PAGE, lambda last: (last.id,))
    return console.page("annotators/votes.html",
        annotator=found.public(), votes=page.items, next_cursor=page.next_cursor,
    )  # fmt: skip


@router.post("/{annotator_id}/decisions")
def post_decision(
    annotator_id: UUID,
    console: Reviewer,
    conn: Transaction,
    action: Annotated[Action, Form()],
    reason: Annotated[Reason, Form()],
    queue: Annotated[bool, Form()] = False,
) -> Response:
    """Decide on an annotator, and go back to the queue or to the annotator."""
    found, taken = annotators.decide(conn, str(annotator_id), action, reason=reason, decided_by=console.actor)
    undo = f"/console/annotators/{annotator_id}/decisions/{taken.id}/undo"
    address = "/console/reviews" if queue else f"/console/annotators/{annotator_id}"
    return console.go(address, describe_decision(found, taken), undo=undo)


@router.post("/{annotator_id}/decisions/{decision_id}/undo")
def post_undo(annotator_id: UUID, decision_id: UUID, console: Reviewer, conn: Transaction) -> Response:
    """Take back the last decision on an annotator."""
    found, taken = annotators.undo_decision(conn, str(annotator_id), decision_id, decided_by=console.actor)
    text = f"The decision is taken back. {describe_decision(found, taken)}"
    return console.go(f"/console/annotators/{annotator_id}", text)
