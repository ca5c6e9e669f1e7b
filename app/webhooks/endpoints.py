from typing import Annotated
from uuid import UUID

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from app.auth.service import Caller
from app.http.dependencies import ProcessServices, ReadView, Transaction, require
from app.http.pagination import Cursor, Page, PageSize, paginate, read_cursor
from app.http.problems import problem_responses
from app.webhooks import service as subscriptions
from app.webhooks.events import announce_to
from app.webhooks.service import Delivery, Event, NewWebhook, Webhook

router = APIRouter(prefix="/webhooks", tags=["webhooks"], dependencies=[require("admin")])

_Position = TypeAdapter(tuple[UUID])


class WebhookRequest(BaseModel):
    """Who wants to be told of what."""

    model_config = ConfigDict(extra="forbid")

    url: str = Field(min_length=1, max_length=2000, description="https, on a public address.")
    events: list[Event] = Field(min_length=1)


class TestMessage(BaseModel):
    """A test message on its way."""

    id: UUID = Field(description="As in the webhook's deliveries.")


@router.get("", responses=problem_responses(401, 403, 503))
def list_webhooks(conn: ReadView) -> Page[Webhook]:
    """List webhooks.

    Needs scope `admin`. Problems: `not-authenticated`, `scope-missing`.
    """
    return Page(items=subscriptions.list_webhooks(conn), next_cursor=None)


@router.post("", status_code=201, responses=problem_responses(401, 403, 422, 503))
def post_webhook(
    body: WebhookRequest, caller: Annotated[Caller, require("admin")], conn: Transaction, services: ProcessServices
) -> NewWebhook:
    """Tell a URL of events from now on.

    Messages are signed as Standard Webhooks defines it, with the `secret` that is shown here and never again; they are
    sent again, up to ten times over three days, until they are answered 2xx, or 410 for never again. Redirects are not
    followed. Needs scope `admin`; posting twice makes two. Problems: `not-authenticated`, `scope-missing`; `invalid`
    for an unknown event or a URL that cannot be used, `forbidden-address` for one that is not public.
    """
    return subscriptions.create_webhook(
        conn,
        body.url,
        body.events,
        created_by=caller.name,
        allow_private=services.settings.webhooks.allow_private_addresses,
    )


@router.delete("/{webhook_id}", status_code=204, responses=problem_responses(401, 403, 404, 422, 503))
def delete_webhook(webhook_id: UUID, caller: Annotated[Caller, require("admin")], conn: Transaction) -> None:
    """Tell a webhook nothing more.

    Needs scope `admin`. Problems: `not-authenticated`, `scope-missing`, `not-found`.
    """
    subscriptions.delete_webhook(conn, webhook_id, deleted_by=caller.name)


@router.post("/{webhook_id}/test", status_code=202, responses=problem_responses(401, 403, 404, 422, 503))
def post_test(webhook_id: UUID, conn: Transaction) -> TestMessage:
    """Send a webhook a test message.

    Needs scope `admin`. Problems: `not-authenticated`, `scope-missing`, `not-found`.
    """
    subscriptions.list_deliveries(conn, webhook_id, limit=1)  # refuses a webhook that is not there
    return TestMessage(id=announce_to(conn, webhook_id, {}))


@router.get("/{webhook_id}/deliveries", responses=problem_responses(401, 403, 404, 422, 503))
def list_deliveries(webhook_id: UUID, conn: ReadView, limit: PageSize = 50, cursor: Cursor = None) -> Page[Delivery]:
    """List what a webhook was told, the newest first, and how it went.

    Needs scope `admin`. Problems: `not-authenticated`, `scope-missing`, `not-found`; `invalid` for an unknown cursor.
    """
    position = read_cursor(cursor, _Position)
    items = subscriptions.list_deliveries(conn, webhook_id, limit=limit + 1, before=position and position[0])
    return paginate(items, limit, lambda last: (last.id,))
