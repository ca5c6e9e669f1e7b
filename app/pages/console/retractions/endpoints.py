"""Retractions: see what was retracted, retract votes, and take a retraction back."""

from typing import Annotated, get_args
from uuid import UUID

from fastapi import Form, Response

from app.api.dependencies import ReadView, Transaction
from app.api.texts import Reason
from app.errors import ConflictError, NotFoundError
from app.naming.names import MAX_NAME_LENGTH
from app.pages.console.rendering import Reader, Reviewer, console_router
from app.votes.retractions.queries import Target
from app.votes.retractions.service import list_retractions, retract_votes, withdraw_retraction
from app.wording import plural

router = console_router("retractions")

_ON_A_PAGE = 50
_ADDRESS = "/console/retractions"


@router.get("")
def get_retractions(console: Reader, conn: ReadView, before: UUID | None = None) -> Response:
    """List retractions, the newest first, and show the form that retracts votes."""
    found = list_retractions(conn, limit=_ON_A_PAGE + 1, before=before)
    shown = found[:_ON_A_PAGE]
    return console.page(
        "retractions/page.html",
        retractions=shown,
        next_before=shown[-1].id if len(found) > len(shown) else None,
        targets=get_args(Target),
    )


@router.post("")
def post_retraction(
    console: Reviewer,
    conn: Transaction,
    target: Annotated[Target, Form()],
    which: Annotated[str, Form(alias="id", min_length=1, max_length=MAX_NAME_LENGTH)],
    reason: Annotated[Reason, Form()],
) -> Response:
    """Retract votes. If there is nothing of that name, the list says so."""
    try:
        done = retract_votes(conn, target, which.strip(), reason=reason, retracted_by=console.actor)
    except NotFoundError as error:
        return console.go(_ADDRESS, f"Nothing was retracted: {error.detail}.", "bad")
    text = f"{plural(done.votes, 'vote')} will not count from the next refit on. The list has the way back."
    return console.go(_ADDRESS, text)


@router.post("/{retraction_id}/withdraw")
def post_withdrawal(
    retraction_id: UUID, console: Reviewer, conn: Transaction, reason: Annotated[Reason, Form()]
) -> Response:
    """Take a retraction back."""
    try:
        with conn.begin_nested():  # a withdrawal that cannot be is found after it is written
            done = withdraw_retraction(conn, retraction_id, reason=reason, withdrawn_by=console.actor)
    except ConflictError as error:
        return console.go(_ADDRESS, f"It was not taken back: {error.detail}.", "bad")
    return console.go(_ADDRESS, f"Taken back: {plural(done.votes, 'vote')} may count again.")
