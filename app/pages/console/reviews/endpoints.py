"""The review queue: annotators with an open flag, the strongest reason first."""

from dataclasses import dataclass

from fastapi import Response
from pydantic import TypeAdapter

from app.api.dependencies import ReadView
from app.api.pagination import Cursor, Number, paginate, read_cursor
from app.pages.console.rendering import Reader, console_router
from app.review import service as reviews
from app.review.evidence.reasons import format_ratio
from app.review.schemas import Review

router = console_router("reviews")

_ON_A_PAGE = 25
_Position = TypeAdapter(tuple[float, Number])


@router.get("")
def get_reviews(console: Reader, conn: ReadView, cursor: Cursor = None) -> Response:
    """List the annotators that wait for a decision."""
    found = reviews.list_reviews(conn, limit=_ON_A_PAGE + 1, after=read_cursor(cursor, _Position))
    page = paginate(found, _ON_A_PAGE, lambda last: last[0].position)
    state = reviews.queue_state(conn)
    return console.page(
        "reviews/page.html",
        rows=[view_review(one, state.threshold) for _, one in page.items],
        state=state,
        next_cursor=page.next_cursor,
        first=cursor is None,
    )


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
    words : the first reasons; `more` is the number of those left out
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
    reason = review.evidence
    inside = review.ability is not None
    places = (review.ability, review.ability_lower, review.ability_upper) if inside else (
        review.shadow_ability, review.shadow_lower, review.shadow_upper,
    )  # fmt: skip
    ability, lower, upper = (_place(value) for value in places)
    return QueueRow(
        review=review,
        meter=round(100.0 * min(reason.strength / _STRONGEST, 1.0), 1),
        strength=f"{format_ratio(reason.strength)} likelier" if reason.strength > 0 else "no strong reason",
        words=reason.words[:_SHOWN_WORDS],
        more=max(len(reason.words) - _SHOWN_WORDS, 0),
        ability=ability,
        lower=lower,
        upper=upper,
        threshold=_place(threshold),
    )


def _place(value: float | None) -> float | None:
    if value is None:
        return None
    return round(100.0 * (min(max(value, LOW), HIGH) - LOW) / (HIGH - LOW), 2)
