"""The command `stable-arena webhooks`: who gets messages, and how they went."""

from typing import Annotated
from uuid import UUID

import typer

from app.auth.keys import COMMAND_LINE
from app.cli.options import LimitOption, PrintedOption, read_form
from app.cli.outputs import print_list, print_made
from app.cli.session import changing, open_session, reading
from app.webhooks import service
from app.webhooks.events import announce_to
from app.webhooks.schemas import EVENTS, WebhookRequest

Id = Annotated[UUID, typer.Argument(metavar="ID", help="The webhook, as listed.")]

webhooks = typer.Typer(add_completion=False, no_args_is_help=True)


@webhooks.command("list")
def show(output_format: PrintedOption = "table") -> None:
    """List webhooks, without their secrets."""
    with reading() as conn:
        found = service.list_webhooks(conn)
    state = ("State", lambda one: "paused" if one.paused_at else "sent")
    print_list(output_format, "webhooks", found, "Webhook=id", "URL=url", "Events=events", state)


@webhooks.command()
def add(
    url: Annotated[str, typer.Argument(help="Where the messages go: https, on a public address.")],
    event: Annotated[list[str], typer.Option(help=f"About what: {', '.join(EVENTS)}. Repeat it for several.")],
    output_format: PrintedOption = "table",
) -> None:
    """Send messages about events to a URL from now on; prints the secret that signs them, once."""
    wanted = read_form(WebhookRequest, {"url": url, "events": event})
    with open_session(creates=False) as session, session.database.begin() as conn:
        private = session.settings.webhooks.allow_private_addresses
        made = service.create_webhook(conn, wanted.url, wanted.events, created_by=COMMAND_LINE, allow_private=private)
    print_made(output_format, made, f"Webhook {made.id}. The secret, which is not shown again:\n{made.secret}")


@webhooks.command()
def delete(webhook: Id) -> None:
    """Delete a webhook: it gets no more messages, not even those that wait."""
    with changing() as conn:
        service.delete_webhook(conn, webhook, deleted_by=COMMAND_LINE)
    typer.echo(f"Webhook {webhook} is deleted.")


@webhooks.command()
def pause(webhook: Id) -> None:
    """Let a webhook's messages wait until it is resumed."""
    with changing() as conn:
        service.pause_webhook(conn, webhook, paused=True, changed_by=COMMAND_LINE)
    typer.echo(f"Webhook {webhook} is paused.")


@webhooks.command()
def resume(webhook: Id) -> None:
    """Send a paused webhook's messages again, those that waited first."""
    with changing() as conn:
        service.pause_webhook(conn, webhook, paused=False, changed_by=COMMAND_LINE)
    typer.echo(f"Webhook {webhook} gets its messages again.")


@webhooks.command()
def test(webhook: Id) -> None:
    """Send a webhook a test message; a worker delivers it."""
    with changing() as conn:
        service.find_webhook(conn, webhook)
        message = announce_to(conn, webhook, {})
    typer.echo(f"Message {message} is on its way; `webhooks deliveries` shows how it went.")


@webhooks.command()
def deliveries(
    webhook: Id,
    limit: LimitOption = 50,
    output_format: PrintedOption = "table",
) -> None:
    """List a webhook's messages, the newest first, with the result of the last attempt."""
    with reading() as conn:
        found = service.list_deliveries(conn, webhook, limit=limit)
    columns = ("Created=created_at", "Attempts=attempts", "Status=status", "Last result=detail")
    print_list(output_format, "deliveries", found, "Message=id", "Event=event", *columns)
