"""Models: those that are unreleased, with their scores; publish one, archive one, show one again."""

from typing import Annotated, Any

from fastapi import Form, Response
from pydantic import BeforeValidator
from sqlalchemy import Connection

from app.api.dependencies import ReadView, Transaction
from app.api.texts import Reason
from app.errors import ConflictError, NotFoundError
from app.models.schemas import FoundModel, ModelChange, ModelName, NewModel, Publication
from app.models.service import add_model, change_model, list_models, publish_model
from app.pages.console.rendering import Admin, Console, Reader, console_router
from app.snapshots.queries import list_placed_models, newest_snapshot

router = console_router("models")

_ADDRESS = "/console/models"
_MOST = 100_000
_REFUSALS = (ConflictError, NotFoundError)
ModelField = Annotated[ModelName, Form()]
MaybeName = Annotated[ModelName | None, BeforeValidator(lambda text: text or None), Form()]


@router.get("")
def get_models(console: Reader, conn: ReadView) -> Response:
    """List unreleased and archived models, and show the forms that change them."""
    found = list_models(conn, limit=_MOST, archived=True)
    return console.page(
        "models/page.html",
        unreleased=_unreleased(conn, found),
        archived=[one for one in found if one.archived_at is not None],
        names=[one.name for one in found if one.archived_at is None],
        may_change=console.visitor.caller.may("admin"),
    )


@router.post("")
def post_model(console: Admin, conn: Transaction, model: ModelField, organization: MaybeName = None) -> Response:
    """Add an unreleased model."""
    new = NewModel(name=model, organization=organization, unreleased=True)
    try:
        added = add_model(conn, new, added_by=console.actor)
    except _REFUSALS as error:
        return _refused(console, error)
    return console.go(_ADDRESS, f"{added.name} is on record. Nothing public names it until it is published.")


@router.post("/publish")
def post_publication(console: Admin, conn: Transaction, model: ModelField, name: MaybeName = None) -> Response:
    """Publish an unreleased model, under its codename or another name."""
    try:
        with conn.begin_nested():  # the name may be found taken after the model is public
            published = publish_model(conn, model, Publication(name=name), published_by=console.actor)
    except _REFUSALS as error:
        return _refused(console, error)
    return console.go(_ADDRESS, f"{published.name} is public, and ranked from the next refit on.")


@router.post("/archive")
def post_archive(console: Admin, conn: Transaction, model: ModelField, reason: Annotated[Reason, Form()]) -> Response:
    """Archive a model."""
    return _change(console, conn, model, ModelChange(archived=True, reason=reason), "is archived")


@router.post("/restore")
def post_restore(console: Admin, conn: Transaction, model: ModelField) -> Response:
    """Show an archived model again."""
    return _change(console, conn, model, ModelChange(archived=False), "is shown on leaderboards again")


def _change(console: Console, conn: Connection, model: str, change: ModelChange, said: str) -> Response:
    try:
        changed = change_model(conn, model, change, changed_by=console.actor)
    except _REFUSALS as error:
        return _refused(console, error)
    return console.go(_ADDRESS, f"{changed.name} {said}.")


def _refused(console: Console, error: ConflictError | NotFoundError) -> Response:
    return console.go(_ADDRESS, f"Nothing was changed: {error.detail}.", "bad")


def _unreleased(conn: Connection, models: list[FoundModel]) -> list[tuple[FoundModel, Any]]:
    """Return the unreleased models that are not archived, each with its row of the newest leaderboard, or None."""
    snapshot = newest_snapshot(conn)
    rows = [] if snapshot is None else list_placed_models(conn, snapshot["id"], with_hidden=True)
    placed = {row["model_id"]: row for row in rows}
    return [(one, placed.get(one.model_id)) for one in models if one.unreleased and one.archived_at is None]
