"""The review queue: groups and single annotators with an open flag, and below them the watch list."""

from dataclasses import dataclass
from typing import Annotated
from uuid import UUID

from fastapi import Form, Response
from pydantic import TypeAdapter

from app.annotators.schemas import Action
from app.api.dependencies import ReadView, Transaction
from app.api.pagination import Cursor, Number, paginate, read_cursor
from app.api.texts import Reason
from app.pages.console.annotators.view import CHOICES, describe_taken
from app.pages.console.rendering import Reader, Reviewer, console_router
from app.review import service as reviews
from app.review.evidence.reasons import BEHAVIOURS, format_odds
from app.review.groups import service as groups
from app.review.groups.schemas import Group, Test
from app.review.schemas import Review
from app.wording import plural

router = console_router("reviews")

_ON_A_PAGE = 25
_WATCHED = 10  # of the watch list, below the queue
_Position = TypeAdapter(tuple[float, Number])


@router.get("")
def get_reviews(console: Reader, conn: ReadView, cursor: Cursor = None, watch: bool = False) -> Response:
    """List what waits for a decision: groups, then single annotators; and the watch list, alone or below them."""
    first, state, on_watch = cursor is None, reviews.queue_state(conn), reviews.on_the_watch_list(conn)
    choose = on_watch if watch else reviews.flagged_alone(conn)
    found = reviews.list_reviews(conn, limit=_ON_A_PAGE + 1, after=read_cursor(cursor, _Position), choose=choose)
    page = paginate(found, _ON_A_PAGE, lambda last: last[0].queue_position)
    below = reviews.list_reviews(conn, limit=_WATCHED, choose=on_watch) if first and not watch else []
    return console.page(
        "reviews/page.html",
        groups=groups.list_groups(conn) if first and not watch else [],
        rows=[view_review(one, state.threshold) for _, one in page.items],
        below=[view_review(one, state.threshold) for _, one in below],
        state=state,
        watch=watch,
        next_cursor=page.next_cursor,
        first=first,
        words=describe_group,
        odds=format_odds,
    )


@router.get("/group")
def get_group(console: Reader, conn: ReadView, test: Test, model: str) -> Response:
    """Show the members of a group, to decide on all of them at once."""
    group = groups.find_group(conn, test, model)
    choices = [choice for choice in CHOICES if choice.action != "withdraw"]
    return console.page(
        "reviews/group.html", group=group, choices=choices, words=describe_group(group), odds=format_odds
    )


@router.post("/groups/decisions")
def post_group_decision(
    console: Reviewer,
    conn: Transaction,
    test: Annotated[Test, Form()],
    model: Annotated[str, Form()],
    annotators: Annotated[list[UUID], Form()],
    action: Annotated[Action, Form()],
    reason: Annotated[Reason, Form()],
) -> Response:
    """Decide on the members that the page showed, and go back to the queue."""
    group_id, taken = groups.decide_group(
        conn, test, model, action, reason=reason, decided_by=console.actor, seen=annotators
    )
    text = f"{plural(len(taken), 'annotator')}: each {describe_taken(action)}."
    return console.go("/console/reviews", text, undo=f"/console/reviews/groups/decisions/{group_id}/undo")


@router.post("/groups/decisions/{group_id}/undo")
def post_group_undo(group_id: UUID, console: Reviewer, conn: Transaction) -> Response:
    """Take back the decisions on a group."""
    taken = groups.undo_group(conn, group_id, decided_by=console.actor)
    return console.go("/console/reviews", f"The decisions on {plural(len(taken), 'annotator')} are taken back.")


def describe_group(group: Group) -> str:
    """Say in a sentence what the members of a group do."""
    behaviour = BEHAVIOURS[group.test].format(about=group.model).removeprefix("an annotator who ")
    return f"Each {behaviour}, by the newest refit."


LOW, HIGH = -1.0, 2.0
"""Ends of the axis on which the queue draws abilities; what lies beyond is drawn at the end."""
_STRONGEST = 8.0  # log10 of the odds at which the meter is full
_SHOWN_WORDS = 1


@dataclass(frozen=True)
class QueueRow:
    """One annotator of the queue.

    Attributes
    ----------
    meter : share of the meter that the strength of the reason fills
    strength : the strength in words
    words : the first reasons, or why there is no flag; `more` is the number of those left out
    ability, lower, upper, threshold : places on the axis, 0 to 100; None where unknown
    """

    review: Review
    meter: float
    strength: str
    words: list[str]
    more: int
    ability: float | None
    lower: float | None
    upper: float | None
    threshold: float | None


def view_review(review: Review, threshold: float | None) -> QueueRow:
    """Return what the queue shows of an annotator; `threshold` is ε."""
    reason, judged = review.evidence, review.evidence.judged
    places = (judged.value, judged.lower, judged.upper) if judged else (None, None, None)
    ability, lower, upper = (_place(value) for value in places)
    return QueueRow(
        review=review,
        meter=round(100.0 * min(reason.strength / _STRONGEST, 1.0), 1),
        strength=format_odds(reason.strength) if reason.strength > 0 else "no strong reason",
        words=[reason.not_flagged] if reason.not_flagged else reason.words[:_SHOWN_WORDS],
        more=0 if reason.not_flagged else max(len(reason.words) - _SHOWN_WORDS, 0),
        ability=ability,
        lower=lower,
        upper=upper,
        threshold=_place(threshold),
    )


def _place(value: float | None) -> float | None:
    if value is None:
        return None
    return round(100.0 * (min(max(value, LOW), HIGH) - LOW) / (HIGH - LOW), 2)
