"""The command `stable-arena invitations`: who may vote on the answers that lie here."""

from typing import Annotated, Any
from uuid import UUID

import typer

from app.auth.keys import COMMAND_LINE
from app.cli.options import LimitOption, PrintedOption, read_form, read_time
from app.cli.outputs import print_list, print_made
from app.cli.session import changing, reading
from app.invitations import service
from app.invitations.schemas import NewInvitation

invitations = typer.Typer(add_completion=False, no_args_is_help=True)


@invitations.command()
def create(
    annotator: Annotated[
        str | None, typer.Option(help="Key of the link's annotator.", show_default="a random one")
    ] = None,
    everyone: Annotated[
        bool, typer.Option("--everyone", help="Open the door to everyone, in place of a link.")
    ] = False,
    category: Annotated[str | None, typer.Option(help="Show only prompts of this category.")] = None,
    max_votes: Annotated[int | None, typer.Option(min=1, help="Most votes of an annotator.")] = None,
    expires: Annotated[str | None, typer.Option(metavar="TIME", help="When it ends.")] = None,
    output_format: PrintedOption = "table",
) -> None:
    """Make a link for one annotator, or open the door to everyone.

    The link's path is printed; put the service's address in front. Who has it votes as its annotator.
    """
    values: dict[str, Any] = {"annotator": annotator, "everyone": everyone, "category": category}
    end = read_time("--expires", expires)
    new = read_form(NewInvitation, {**values, "max_votes": max_votes, "expires_at": end and end.isoformat()})
    with changing() as conn:
        made = service.add_invitation(conn, new, created_by=COMMAND_LINE)
    print_made(output_format, made, made.link)


@invitations.command("list")
def show(limit: LimitOption = 50, output_format: PrintedOption = "table") -> None:
    """List invitations with the votes of each, the newest first."""
    with reading() as conn:
        found = service.list_invitations(conn, limit=limit)
    recipient = ("For", lambda one: one.annotator or "everyone")
    prompts = ("Prompts", lambda one: one.category or "all")
    columns = ("Invitation=id", recipient, "State=state", "Votes=votes", prompts, "Link=link")
    print_list(output_format, "invitations", found, *columns)


@invitations.command()
def revoke(
    invitation: Annotated[UUID, typer.Argument(help="The invitation's id.")], output_format: PrintedOption = "table"
) -> None:
    """Revoke a link, or close the door; its votes stay."""
    with changing() as conn:
        done = service.revoke_invitation(conn, invitation, revoked_by=COMMAND_LINE)
    print_made(output_format, done, f"invitation {done.id} is {done.state}")
