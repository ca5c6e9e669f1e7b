"""Webhooks: make one, test it, pause it, delete it, and see what became of its messages."""

from typing import Annotated, Any
from uuid import UUID

from fastapi import Form, Response
from pydantic import BaseModel
from sqlalchemy import Connection

from app.api.dependencies import HeldSettings, ReadView, Transaction
from app.errors import BadInputError
from app.pages.console.rendering import Admin, Console, console_router
from app.webhooks import service as webhooks
from app.webhooks.events import announce_to
from app.webhooks.schemas import EVENTS, Event

router = console_router("webhooks")

_SHOWN = 100

WORDS: dict[Event, str] = {
    "snapshot.published": "a leaderboard is published",
    "annotators.flagged": "annotators are newly flagged",
    "annotators.excluded": "annotators are newly excluded",
    "annotator.decided": "a reviewer decides on an annotator",
    "appeal.submitted": "an annotator appeals",
    "refit.failed": "a refit fails, or waits for an admin",
    "board.stale": "the leaderboard is older than the policy allows",
    "rule.jumped": "a rule flags many more annotators than usual",
    "model.merged": "the votes on a model count for another one, or for itself again",
    "model.changed": "a model is marked as changed, or the mark is taken back",
}


class WebhookForm(BaseModel):
    """What the form says of the webhook to make."""

    url: str = ""
    events: list[str] = []


@router.get("")
def get_webhooks(console: Admin, conn: ReadView) -> Response:
    """List webhooks, and show the form that makes one."""
    return _show(console, conn)


@router.post("")
def post_webhook(
    console: Admin,
    conn: Transaction,
    settings: HeldSettings,
    form: Annotated[WebhookForm, Form()],
) -> Response:
    """Make a webhook and show its secret this once."""
    events = [event for event in EVENTS if event in form.events]
    allow_private = settings.webhooks.allow_private_addresses
    if not events:
        return _show(console, conn, form=form, problem="choose at least one event", status=422)
    try:
        made = webhooks.create_webhook(
            conn, form.url.strip(), events, created_by=console.actor, allow_private=allow_private
        )
    except BadInputError as error:
        return _show(console, conn, form=form, problem=error.detail, status=422)
    return _show(console, conn, made=made)


@router.get("/{webhook_id}")
def get_webhook(webhook_id: UUID, console: Admin, conn: ReadView) -> Response:
    """Show a webhook and its latest messages."""
    deliveries = webhooks.list_deliveries(conn, webhook_id, limit=_SHOWN)
    webhook = webhooks.find_webhook(conn, webhook_id)
    return console.page("webhooks/webhook.html", webhook=webhook, deliveries=deliveries, words=WORDS)


@router.post("/{webhook_id}/test")
def post_test(webhook_id: UUID, console: Admin, conn: Transaction) -> Response:
    """Send a test message."""
    webhooks.find_webhook(conn, webhook_id)
    announce_to(conn, webhook_id, {})
    text = "A test message is on its way. Reload this page in a few seconds to see the answer."
    return console.go(f"/console/webhooks/{webhook_id}", text)


@router.post("/{webhook_id}/pause")
def post_pause(webhook_id: UUID, console: Admin, conn: Transaction) -> Response:
    """Let its messages wait."""
    webhooks.pause_webhook(conn, webhook_id, paused=True, changed_by=console.actor)
    undo = f"/console/webhooks/{webhook_id}/resume"
    return console.go(f"/console/webhooks/{webhook_id}", "Its messages wait now.", "warn", undo)


@router.post("/{webhook_id}/resume")
def post_resume(webhook_id: UUID, console: Admin, conn: Transaction) -> Response:
    """Send its messages again."""
    webhooks.pause_webhook(conn, webhook_id, paused=False, changed_by=console.actor)
    text = "Its messages are sent again, those that waited first."
    return console.go(f"/console/webhooks/{webhook_id}", text)


@router.post("/{webhook_id}/delete")
def post_delete(webhook_id: UUID, console: Admin, conn: Transaction) -> Response:
    """Delete it, with the messages that wait."""
    webhooks.delete_webhook(conn, webhook_id, deleted_by=console.actor)
    return console.go("/console/webhooks", "The webhook is deleted.")


def _show(console: Console, conn: Connection, *, status: int = 200, **shown: Any) -> Response:
    usual = {"form": WebhookForm(events=list(EVENTS)), "problem": None, "made": None}
    found = webhooks.list_webhooks(conn)
    return console.page("webhooks/page.html", status=status, webhooks=found, words=WORDS, **(usual | shown))
