"""The command `stable-arena retractions`: list what was retracted, retract votes, take a retraction back."""

from typing import Annotated
from uuid import UUID

import typer
from rich.table import Table

from app.cli.options import PrintedOption, check_reason
from app.cli.outputs import write_json, write_tables
from app.cli.session import changing, reading
from app.cli.tables import make_table
from app.cli.texts import one_line
from app.rating.errors import counted
from app.votes.queries import Target
from app.votes.retractions.service import list_retractions, retract_votes, withdraw_retraction
from app.votes.schemas import Retraction

_BY = "command line"

ReasonOption = Annotated[str, typer.Option(help="Why; it stays on record.")]

retractions = typer.Typer(
    help="List retractions, retract votes, and take a retraction back.", add_completion=False, no_args_is_help=True
)


@retractions.command("list")
def show(
    limit: Annotated[int, typer.Option(min=1, help="At most so many, the newest.")] = 50,
    output_format: PrintedOption = "table",
) -> None:
    """List retractions, the newest first."""
    with reading() as conn:
        found = list_retractions(conn, limit=limit)
    if output_format == "json":
        write_json({"retractions": [one.model_dump(mode="json") for one in found]})
    else:
        write_tables([_table(found)])


@retractions.command()
def add(
    target: Annotated[Target, typer.Argument(help="What to retract the votes of.")],
    reference: Annotated[str, typer.Argument(metavar="ID", help="Its id; a model's name, an annotator's key.")],
    reason: ReasonOption,
    output_format: PrintedOption = "table",
) -> None:
    """Retract one vote, or the votes of a battle, a model, an annotator or an import that are on record now."""
    with changing() as conn:
        done = retract_votes(conn, target, reference, reason=check_reason(reason), retracted_by=_BY)
    if output_format == "json":
        write_json(done)
    else:
        typer.echo(f"Retraction {done.id}: {counted(done.votes, 'vote')} will not count from the next refit on.")


@retractions.command()
def withdraw(
    retraction_id: Annotated[UUID, typer.Argument(metavar="ID", help="The retraction, as listed.")],
    reason: ReasonOption,
    output_format: PrintedOption = "table",
) -> None:
    """Take a retraction back: its votes count again from the next refit on."""
    with changing() as conn:
        done = withdraw_retraction(conn, retraction_id, reason=check_reason(reason), withdrawn_by=_BY)
    if output_format == "json":
        write_json(done)
    else:
        typer.echo(f"Retraction {done.id} is withdrawn: {counted(done.votes, 'vote')} may count again.")


def _table(found: list[Retraction]) -> Table:
    table = make_table(
        "Retraction", "When", "What", "Of", "Votes", "By", "Reason", words=["What", "Of", "By", "Reason"]
    )
    for one in found:
        state = "" if one.withdrawn_at is None else "withdrawn: "
        table.add_row(
            str(one.id), f"{one.retracted_at:%Y-%m-%d %H:%M}", one.target, one.target_id, f"{one.votes:,}",
            one.retracted_by, one_line(state + one.reason),
        )  # fmt: skip
    return table
