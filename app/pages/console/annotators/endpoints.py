"""Annotators: the search, the page of each, and decisions."""

from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Literal
from urllib.parse import urlencode
from uuid import UUID

from fastapi import Form, Query, Response
from pydantic import TypeAdapter

from app.annotators import service as annotators
from app.annotators.schemas import Action
from app.api.dependencies import ReadView, Transaction, held
from app.api.pagination import Cursor, Id, Name, Number, paginate, read_cursor, read_single
from app.api.texts import Reason
from app.errors import NotFoundError, StableArenaError
from app.pages.console.annotators.view import describe_decision, view_case, view_impact
from app.pages.console.rendering import Console, Reader, Reviewer, console_router
from app.rating.settings import Standing
from app.review import service as reviews
from app.review.evidence.annotator_votes import list_annotator_votes
from app.review.groups.schemas import MOST_AT_ONCE
from app.review.impact.service import ImpactBusyError, Impacts
from app.review.queue import next_review
from app.review.schemas import Impact, JointImpact, QueueFilter
from app.votes.retractions.service import find_vote

router = console_router("annotators")

_ON_A_PAGE = 50
_Position = TypeAdapter(tuple[float, Number])
_KeyPosition = TypeAdapter(tuple[Name])


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
        found = annotators.search_annotators(
            conn, text, limit=_ON_A_PAGE + 1, standing=standing or None, after=read_single(cursor, _KeyPosition)
        )
        page = paginate(found, _ON_A_PAGE, lambda last: (last.annotator,))
    else:
        after = read_cursor(cursor, _Position)
        found = annotators.list_annotators(conn, limit=_ON_A_PAGE + 1, standing=standing or None, after=after)
        page = paginate(found, _ON_A_PAGE, lambda last: last.position)
    whys = [reason.not_flagged or " ".join(reason.words[:1]) for reason in reviews.list_reasons(conn, page.items)]
    return console.page(
        "annotators/search.html",
        found=list(zip(page.items, whys, strict=True)),
        next_cursor=page.next_cursor,
        q=text,
        standing=standing,
        first=cursor is None,
    )


# Plain functions without a transaction: they may wait for a fit.
@router.get("/impact")
def get_joint_impact(
    console: Reader,
    impacts: Annotated[Impacts, held(Impacts)],
    annotators: Annotated[list[UUID], Query(min_length=1, max_length=MOST_AT_ONCE)],
) -> Response:
    """Show how the leaderboard would move without several annotators."""
    return _show_impact(console, lambda: impacts.joint_impact([str(one) for one in annotators]))


@router.get("/{annotator_id}/impact")
def get_impact(annotator_id: UUID, console: Reader, impacts: Annotated[Impacts, held(Impacts)]) -> Response:
    """Show how the leaderboard would move without an annotator, or with one that does not count."""
    return _show_impact(console, lambda: impacts.impact(str(annotator_id)))


def _show_impact(console: Console, find: Callable[[], Impact | JointImpact]) -> Response:
    try:
        impact = find()
    except StableArenaError as error:
        if "hx-request" not in console.request.headers or isinstance(error, NotFoundError):
            raise
        again = isinstance(error, ImpactBusyError)
        return console.page("annotators/no_impact.html", again=again, reason=error.detail)
    return console.page("annotators/impact.html", **view_impact(impact))


class CaseQuery(QueueFilter):
    """Whether the case is looked at as one of the queue, and of which selection of it."""

    queue: bool = False

    @property
    def case_query(self) -> dict[str, str]:
        """What the address of the next case says."""
        return {"queue": "1", **self.query}


@router.get("/{annotator_id}")
def get_annotator(
    annotator_id: UUID, console: Reader, conn: ReadView, query: Annotated[CaseQuery, Query()]
) -> Response:
    """Show an annotator: standing, the case as pictures, decisions and appeals."""
    detail, votes = reviews.find_detail(conn, str(annotator_id)), []
    for one in detail.evidence.surprising if detail.evidence else ():
        with suppress(NotFoundError):
            votes.append(find_vote(conn, one.id))
    shown = view_case(detail, reviews.rule_used(conn), votes)
    following = next_review(conn, annotator_id, query) if query.queue else None
    return console.page("annotators/page.html", queue=query.queue, selection=query, following=following, **shown)


@router.get("/{annotator_id}/votes")
def get_votes(annotator_id: UUID, console: Reader, conn: ReadView, cursor: Cursor = None) -> Response:
    """List an annotator's votes, the one recorded last first."""
    found = annotators.find_annotator(conn, str(annotator_id))
    votes = list_annotator_votes(conn, found, limit=_ON_A_PAGE + 1, before=read_single(cursor, Id))
    page = paginate(votes, _ON_A_PAGE, lambda last: (last.id,))
    return console.page("annotators/votes.html", annotator=found, votes=page.items, next_cursor=page.next_cursor)


class DecisionForm(CaseQuery):
    """What was decided, and why."""

    action: Action
    reason: Reason


@router.post("/{annotator_id}/decisions")
def post_decision(
    annotator_id: UUID, console: Reviewer, conn: Transaction, form: Annotated[DecisionForm, Form()]
) -> Response:
    """Decide on an annotator, and go on to the next case of the queue, or back to the annotator."""
    following = next_review(conn, annotator_id, form) if form.queue else None
    found, taken = annotators.decide(conn, str(annotator_id), form.action, reason=form.reason, decided_by=console.actor)
    undo = f"/console/annotators/{annotator_id}/decisions/{taken.id}/undo"
    address = f"/console/annotators/{annotator_id}"
    if following is not None:
        address = f"/console/annotators/{following.id}?{urlencode(form.case_query)}"
    elif form.queue:
        address = "/console/reviews"
    return console.go(address, describe_decision(found, taken), undo=undo)


@router.post("/{annotator_id}/decisions/{decision_id}/undo")
def post_undo(annotator_id: UUID, decision_id: UUID, console: Reviewer, conn: Transaction) -> Response:
    """Take back the last decision on an annotator."""
    found, taken = annotators.undo_decision(conn, str(annotator_id), decision_id, decided_by=console.actor)
    text = f"The decision is taken back. {describe_decision(found, taken)}"
    return console.go(f"/console/annotators/{annotator_id}", text)
