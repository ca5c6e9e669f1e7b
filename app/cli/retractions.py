"""The command `stable-arena retractions`: list what was retracted, retract votes, take a retraction back."""

from typing import Annotated
from uuid import UUID

import typer

from app.auth.keys import COMMAND_LINE
from app.cli.options import LimitOption, PrintedOption, ReasonOption
from app.cli.outputs import print_list, print_made
from app.cli.session import changing, reading
from app.rating.errors import counted
from app.votes.retractions.queries import Target
from app.votes.retractions.service import list_retractions, retract_votes, withdraw_retraction

retractions = typer.Typer(add_completion=False, no_args_is_help=True)


@retractions.command("list")
def show(
    limit: LimitOption = 50,
    output_format: PrintedOption = "table",
) -> None:
    """List retractions, the newest first."""
    with reading() as conn:
        found = list_retractions(conn, limit=limit)
    reason = ("Reason", lambda one: ("" if one.withdrawn_at is None else "withdrawn: ") + one.reason)
    columns = ("When=retracted_at", "What=target", "Of=target_id", "Votes=votes", "By=retracted_by", reason)
    print_list(output_format, "retractions", found, "Retraction=id", *columns)


@retractions.command()
def add(
    target: Annotated[Target, typer.Argument(help="What to retract the votes of.")],
    reference: Annotated[str, typer.Argument(metavar="ID", help="Its id; a model's name, an annotator's key.")],
    reason: ReasonOption,
    output_format: PrintedOption = "table",
) -> None:
    """Retract one vote, or the votes of a battle, a model, an annotator or an import that are on record now."""
    with changing() as conn:
        done = retract_votes(conn, target, reference, reason=reason, retracted_by=COMMAND_LINE)
    said = f"Retraction {done.id}: {counted(done.votes, 'vote')} will not count from the next refit on."
    print_made(output_format, done, said)


@retractions.command()
def withdraw(
    retraction_id: Annotated[UUID, typer.Argument(metavar="ID", help="The retraction, as listed.")],
    reason: ReasonOption,
    output_format: PrintedOption = "table",
) -> None:
    """Take a retraction back: its votes count again from the next refit on."""
    with changing() as conn:
        done = withdraw_retraction(conn, retraction_id, reason=reason, withdrawn_by=COMMAND_LINE)
    said = f"Retraction {done.id} is withdrawn: {counted(done.votes, 'vote')} may count again."
    print_made(output_format, done, said)
