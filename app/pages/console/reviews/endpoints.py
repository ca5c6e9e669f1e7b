"""The review queue: groups and single annotators with an open flag, and below them the watch list."""

from typing import Annotated, Any
from uuid import UUID

from fastapi import Form, Query, Response

from app.annotators.schemas import Action
from app.api.dependencies import ReadView, Transaction
from app.api.pagination import Cursor, paginate, read_cursor
from app.api.texts import Reason
from app.pages.console.annotators.view import CHOICES, describe_taken
from app.pages.console.rendering import Console, Reader, Reviewer, console_router
from app.review import queue
from app.review.evidence.reasons import BEHAVIOURS, format_odds
from app.review.groups import service as groups
from app.review.groups.schemas import MOST_AT_ONCE, Group, Taken, Test
from app.review.queries import one_of
from app.review.schemas import QueueFilter, QueueState
from app.wording import plural

router = console_router("reviews")

_ON_A_PAGE = 50
_WATCHED = 10  # of the watch list, below the queue
SORTS = {
    "strength": "the strongest reason",
    "votes": "the most votes, the largest share",
    "date": "the newest annotator",
    "name": "the name",
}
RULES = {
    "ability": "low ability",
    "coin": "votes at random or against the leaderboard",
    "equal": "always a tie",
    "follower": "follows the leaderboard",
    "favour": "pushes a model",
    "against": "buries a model",
    "side": "always one side",
}
SHARES = (0.0, 0.0001, 0.001, 0.01, 0.05)


class QueueQuery(QueueFilter):
    """What the page of the queue lists; `watch` lists the watch list."""

    watch: bool = False
    cursor: Cursor = None


Chosen = Annotated[list[UUID], Query(max_length=MOST_AT_ONCE)]


@router.get("")
def get_reviews(console: Reader, conn: ReadView, query: Annotated[QueueQuery, Query()]) -> Response:
    """List what waits for a decision: groups, then single annotators; and the watch list, alone or below them."""
    selection = QueueFilter.model_validate(query.model_dump())
    first, state, watch = query.cursor is None, queue.queue_state(conn, selection), query.watch
    on_watch = queue.on_the_watch_list(conn)
    choose = on_watch if watch else queue.queue_of(conn, selection)
    after = read_cursor(query.cursor, queue.POSITIONS[query.sort])
    found = queue.list_reviews(conn, limit=_ON_A_PAGE + 1, selection=selection, after=after, choose=choose)
    page = paginate(found, _ON_A_PAGE, lambda last: last.place)
    below = queue.list_reviews(conn, limit=_WATCHED, choose=on_watch) if first and not watch else []
    return console.page(
        "reviews/page.html",
        groups=_groups(groups.list_groups(conn), selection, state) if first and not watch else [],
        rows=page.items,
        below=below,
        state=state,
        watch=watch,
        selection=selection,
        offered={"sort": SORTS, "rule": RULES, "min_share": SHARES},
        next_cursor=page.next_cursor,
        first=first,
        words=describe_group,
        odds=format_odds,
    )


@router.get("/group")
def get_group(console: Reader, conn: ReadView, test: Test, model: str) -> Response:
    """Show the members of a group, to decide on all of them at once."""
    group = groups.find_group(conn, test, model)
    lead = (
        f"{describe_group(group)} One alone may have an honest opinion; several who push the same model are judged "
        "together."
    )
    title = f"{plural(len(group.annotators), 'annotator')}, one model: {model}"
    members = [{**one.model_dump(), "why": format_odds(one.log10_odds)} for one in group.annotators]
    hidden = {"test": test, "model": model}
    return _show_several(console, title, lead, members, "/console/reviews/groups/decisions", hidden)


@router.get("/chosen")
def get_chosen(console: Reader, conn: ReadView, annotators: Chosen = []) -> Response:  # noqa: B006  FastAPI copies it
    """Show chosen annotators of the queue, to decide on all of them at once."""
    if not annotators:
        return console.go("/console/reviews", "Choose annotators first: tick their boxes.", "warn")
    found = queue.list_reviews(conn, limit=len(annotators), choose=one_of(annotators))
    members = [{**one.model_dump(), "why": " ".join(one.evidence.words[:1])} for one in found]
    title = plural(len(members), "chosen annotator")
    lead = "One decision for each of them, with one reason. It can be undone for all at once."
    return _show_several(console, title, lead, members, "/console/reviews/decisions", {})


@router.post("/decisions")
def post_decisions(
    console: Reviewer,
    conn: Transaction,
    annotators: Annotated[list[UUID], Form(min_length=1, max_length=MOST_AT_ONCE)],
    action: Annotated[Action, Form()],
    reason: Annotated[Reason, Form()],
) -> Response:
    """Decide on the chosen annotators, and go back to the queue."""
    return _decided(
        console, action, *groups.decide_all(conn, annotators, action, reason=reason, decided_by=console.actor)
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
    return _decided(console, action, group_id, taken)


@router.post("/groups/decisions/{group_id}/undo")
def post_group_undo(group_id: UUID, console: Reviewer, conn: Transaction) -> Response:
    """Take back the decisions that were taken at once."""
    taken = groups.undo_group(conn, group_id, decided_by=console.actor)
    return console.go("/console/reviews", f"The decisions on {plural(len(taken), 'annotator')} are taken back.")


def _decided(console: Console, action: Action, group_id: UUID, taken: Taken) -> Response:
    text = f"{plural(len(taken), 'annotator')}: each {describe_taken(action)}."
    return console.go("/console/reviews", text, undo=f"/console/reviews/groups/decisions/{group_id}/undo")


def _show_several(
    console: Console, title: str, lead: str, members: list[dict[str, Any]], action: str, hidden: dict[str, str]
) -> Response:
    return console.page(
        "reviews/several.html",
        title=title,
        lead=lead,
        members=members,
        votes=sum(one["votes"] for one in members),
        action=action,
        hidden=hidden,
        choices=[choice for choice in CHOICES if choice.action != "withdraw"],
    )


def _groups(found: list[Group], selection: QueueFilter, state: QueueState) -> list[Group]:
    """Return the groups of a selection."""
    if not selection.shows_groups:
        return []
    least = selection.min_share * state.votes_read
    return [one for one in found if selection.rule in (None, one.test) and one.votes >= least]


def describe_group(group: Group) -> str:
    """Say in a sentence what the members of a group do."""
    behaviour = BEHAVIOURS[group.test].format(about=group.model).removeprefix("an annotator who ")
    return f"Each {behaviour}, by the newest refit."
