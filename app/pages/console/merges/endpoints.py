"""Merges: see for which model votes count, merge models, mark models as changed, and take both back."""

from typing import Annotated

from fastapi import Form, Response
from pydantic import BeforeValidator

from app.api.dependencies import ReadView, Transaction
from app.api.texts import Reason
from app.database.timestamps import StorableTimestamp, from_midnight
from app.errors import BadInputError, ConflictError, NotFoundError
from app.models import merges
from app.models.queries import read_model_names
from app.models.schemas import Merge, ModelName, NewVersion
from app.pages.console.rendering import Admin, Console, console_router

router = console_router("merges")

_ADDRESS = "/console/merges"
_REFUSALS = (BadInputError, ConflictError, NotFoundError)
ModelField = Annotated[ModelName, Form()]
ReasonField = Annotated[Reason, Form()]
TimeField = Annotated[StorableTimestamp, BeforeValidator(from_midnight), Form()]


@router.get("")
def get_merges(console: Admin, conn: ReadView) -> Response:
    """List the merges and marks in force, and show the forms that make them."""
    return console.page(
        "merges/page.html",
        merges=merges.list_merges(conn),
        names=sorted(read_model_names(conn).values()),
    )


@router.post("")
def post_merge(console: Admin, conn: Transaction, model: ModelField, into: ModelField, reason: ReasonField) -> Response:
    """Merge a model into another."""
    try:
        merged = merges.merge_model(conn, model, Merge(into=into, reason=reason), merged_by=console.actor)
    except _REFUSALS as error:
        return _refused(console, error)
    return _done(console, f"Votes on {merged.name} count for {merged.merged_into} from the next refit on.")


@router.post("/unmerge")
def post_unmerge(console: Admin, conn: Transaction, model: ModelField, reason: ReasonField) -> Response:
    """Take a merge back."""
    found = merges.unmerge_model(conn, model, reason=reason, unmerged_by=console.actor)
    return _done(console, f"Votes on {found.name} count for itself from the next refit on.")


@router.post("/changed")
def post_changed(console: Admin, conn: Transaction, model: ModelField, at: TimeField, reason: ReasonField) -> Response:
    """Mark a model as changed at a time."""
    try:
        with conn.begin_nested():  # the name of the earlier model may be found taken after it is written
            marked = merges.mark_changed(conn, model, NewVersion(at=at, reason=reason), marked_by=console.actor)
    except _REFUSALS as error:
        return _refused(console, error)
    return _done(console, f"Votes on {marked.model} before that time count for {marked.before} from the next refit on.")


@router.post("/unchanged")
def post_unchanged(
    console: Admin, conn: Transaction, model: ModelField, at: TimeField, reason: ReasonField
) -> Response:
    """Take back that a model changed at a time."""
    found = merges.unmark_changed(conn, model, NewVersion(at=at, reason=reason), unmarked_by=console.actor)
    return _done(console, f"The votes before that time count for {found.name} from the next refit on.")


def _done(console: Console, text: str) -> Response:
    return console.go(_ADDRESS, text)


def _refused(console: Console, error: BadInputError | ConflictError | NotFoundError) -> Response:
    return console.go(_ADDRESS, f"Nothing was changed: {error.detail}.", "bad")
