from typing import Annotated
from uuid import UUID

from fastapi import APIRouter

from app.api.dependencies import HeldSettings, ReadView, Transaction, require
from app.api.pagination import Cursor, Id, Page, PageSize, paginate, read_single
from app.api.problems import problem_responses
from app.auth.callers import Caller
from app.webhooks import service as webhooks
from app.webhooks.events import announce_to
from app.webhooks.schemas import Delivery, NewWebhook, TestMessage, Webhook, WebhookRequest

router = APIRouter(prefix="/webhooks", tags=["webhooks"], dependencies=[require("admin")])


@router.get("")
def list_webhooks(conn: ReadView) -> Page[Webhook]:
    """List webhooks.

    Needs scope `admin`. Problems: `not-authenticated`, `scope-missing`.
    """
    return Page(items=webhooks.list_webhooks(conn), next_cursor=None)


@router.post("", status_code=201)
def post_webhook(
    body: WebhookRequest, caller: Annotated[Caller, require("admin")], conn: Transaction, settings: HeldSettings
) -> NewWebhook:
    """Send messages about events to a URL from now on.

    Messages are signed as Standard Webhooks defines it, with the `secret` that is shown here and never again. A message
    is sent up to ten times over three days, until the answer is 2xx within 15 seconds; after a 410 it is not sent
    again. Redirects are not followed. Posting twice makes two webhooks. Needs scope `admin`. Problems:
    `not-authenticated`, `scope-missing`; `invalid` for an unknown event or a URL that cannot be used,
    `forbidden-address` for a URL that is not public.
    """
    return webhooks.create_webhook(
        conn,
        body.url,
        body.events,
        created_by=caller.name,
        allow_private=settings.webhooks.allow_private_addresses,
    )


@router.delete("/{webhook_id}", status_code=204, responses=problem_responses(404))
def delete_webhook(webhook_id: UUID, caller: Annotated[Caller, require("admin")], conn: Transaction) -> None:
    """Delete a webhook: it gets no more messages, not even those that wait.

    Needs scope `admin`. Problems: `not-authenticated`, `scope-missing`, `not-found`.
    """
    webhooks.delete_webhook(conn, webhook_id, deleted_by=caller.name)


@router.post("/{webhook_id}/pause", responses=problem_responses(404))
def post_pause(webhook_id: UUID, caller: Annotated[Caller, require("admin")], conn: Transaction) -> Webhook:
    """Let a webhook's messages wait until it is resumed.

    Pausing it again changes nothing. Needs scope `admin`. Problems: `not-authenticated`, `scope-missing`, `not-found`.
    """
    return webhooks.pause_webhook(conn, webhook_id, paused=True, changed_by=caller.name)


@router.post("/{webhook_id}/resume", responses=problem_responses(404))
def post_resume(webhook_id: UUID, caller: Annotated[Caller, require("admin")], conn: Transaction) -> Webhook:
    """Send a paused webhook's messages again, those that waited first.

    Resuming it again changes nothing. Needs scope `admin`. Problems: `not-authenticated`, `scope-missing`, `not-found`.
    """
    return webhooks.pause_webhook(conn, webhook_id, paused=False, changed_by=caller.name)


@router.post("/{webhook_id}/test", status_code=202, responses=problem_responses(404))
def post_test(webhook_id: UUID, conn: Transaction) -> TestMessage:
    """Send a webhook a test message.

    Needs scope `admin`. Problems: `not-authenticated`, `scope-missing`, `not-found`.
    """
    webhooks.find_webhook(conn, webhook_id)
    return TestMessage(id=announce_to(conn, webhook_id, {}))


@router.get("/{webhook_id}/deliveries", responses=problem_responses(404))
def list_deliveries(webhook_id: UUID, conn: ReadView, limit: PageSize = 50, cursor: Cursor = None) -> Page[Delivery]:
    """List a webhook's messages, the newest first, with the result of the last attempt.

    Needs scope `admin`. Problems: `not-authenticated`, `scope-missing`, `not-found`; `invalid` for an unknown cursor.
    """
    items = webhooks.list_deliveries(conn, webhook_id, limit=limit + 1, before=read_single(cursor, Id))
    return paginate(items, limit, lambda last: (last.id,))
