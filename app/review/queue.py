"""The review queue and the watch list: what is in them, in which order, and what comes next."""

from uuid import UUID

from pydantic import Field, TypeAdapter
from sqlalchemy import Connection, and_

from app.annotators import service as annotators
from app.annotators.schemas import FoundAnnotator
from app.api.pagination import Name, Number
from app.policy.service import current_policy
from app.review import queries as store
from app.review.groups.queries import outside_groups
from app.review.schemas import QueueFilter, QueueState, Review, Sort
from app.review.service import list_reasons, rule_used
from app.snapshots.queries import newest_snapshot
from app.snapshots.units import whole_votes_read

Place = tuple[float | str, int]
"""Where an annotator stands in a list: what it is sorted by, and the annotator's number."""

POSITIONS: dict[Sort, TypeAdapter[Place]] = {
    **dict.fromkeys(("strength", "votes", "date"), TypeAdapter(tuple[float, Number])),
    "name": TypeAdapter(tuple[Name, Number]),
}
"""What a cursor of each order holds."""


class QueuedReview(Review):
    """An annotator of a list, and the place in it."""

    place: Place = Field(exclude=True)


def list_reviews(
    conn: Connection,
    *,
    limit: int,
    selection: QueueFilter | None = None,
    after: Place | None = None,
    choose: store.Choice = store.flagged,
) -> list[QueuedReview]:
    """Return open flags, or other chosen annotators, in the order of the selection; of equals the older annotator."""
    selection = selection or QueueFilter()
    rows = store.list_queue(conn, _within(choose, selection), sort=selection.sort, limit=limit, after=after)
    found = [FoundAnnotator.model_validate(dict(row)) for row in rows]
    return [
        QueuedReview(**one.model_dump(), evidence=reason, place=place_of(one, selection.sort))
        for one, reason in zip(found, list_reasons(conn, found), strict=True)
    ]


def place_of(one: FoundAnnotator, sort: Sort) -> Place:
    """Return where an annotator stands in this order, as `list_queue` sorts."""
    if sort == "name":
        return one.annotator, one.annotator_id
    by = {"strength": -one.reason_strength, "votes": -float(one.votes), "date": -float(one.annotator_id)}
    return by[sort], one.annotator_id


def on_the_watch_list(conn: Connection) -> store.Choice:
    """Return the choice of annotators at or below ε, as the newest rule judges, that have no flag."""
    return store.watched(rule_used(conn).threshold)


def queue_of(conn: Connection, selection: QueueFilter) -> store.Choice:
    """Return the choice of open flags that are cases of their own.

    Groups are shown by the reason that makes them; by another reason their members are cases of their own.
    """
    if not selection.shows_groups:
        return store.flagged
    outside = outside_groups(rule_used(conn).bar)
    return lambda found: and_(store.flagged(found), outside(found))


def _within(choose: store.Choice, selection: QueueFilter) -> store.Choice:
    return lambda found: and_(choose(found), store.selected(found, selection.rule, selection.min_share))


def queue_state(conn: Connection, selection: QueueFilter | None = None) -> QueueState:
    """Count what waits for a decision, with the thresholds of the rule; `selected` counts flags of a selection."""
    newest, chosen = newest_snapshot(conn), _within(store.flagged, selection or QueueFilter())
    return QueueState(
        published=newest is not None,
        votes_read=0 if newest is None else whole_votes_read(newest),
        **store.count_queue(conn, flagged=store.flagged, selected=chosen, watched=on_the_watch_list(conn)),
        appeals=store.count_open(conn),
        threshold=rule_used(conn).threshold,
        min_votes=current_policy(conn).settings.min_votes,
    )


def next_review(conn: Connection, annotator_id: UUID, selection: QueueFilter) -> Review | None:
    """Return the open flag that follows this annotator's in the queue, or the first one for an annotator without."""
    found = annotators.find_annotator(conn, str(annotator_id))
    after = place_of(found, selection.sort) if found.standing == "flagged" else None
    choose = queue_of(conn, selection)
    return next(iter(list_reviews(conn, limit=1, selection=selection, after=after, choose=choose)), None)
