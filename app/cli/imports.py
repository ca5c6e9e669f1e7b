"""The command `stable-arena imports`: list the imports, and undo one."""

from typing import Annotated
from uuid import UUID

import typer
from rich.table import Table

from app.cli.options import PrintedOption, check_reason
from app.cli.outputs import write_json, write_tables
from app.cli.session import changing, reading
from app.cli.tables import make_table
from app.cli.texts import one_line
from app.imports.schemas import Import
from app.imports.service import list_imports
from app.rating.errors import counted
from app.votes.retractions.service import retract_votes

_BY = "command line"

imports = typer.Typer(
    help="List the imports of vote files, and undo one as a whole.", add_completion=False, no_args_is_help=True
)


@imports.command("list")
def show(
    limit: Annotated[int, typer.Option(min=1, help="At most so many, the newest.")] = 50,
    output_format: PrintedOption = "table",
) -> None:
    """List the imports, the newest first."""
    with reading() as conn:
        found = list_imports(conn, limit=limit)
    if output_format == "json":
        write_json({"imports": [one.model_dump(mode="json") for one in found]})
    else:
        write_tables([_table(found)])


@imports.command()
def undo(
    import_id: Annotated[UUID, typer.Argument(metavar="ID", help="The import, as `imports list` shows it.")],
    reason: Annotated[str, typer.Option(help="Why; it stays on record.")],
    output_format: PrintedOption = "table",
) -> None:
    """Retract all votes of an import; an import that still runs ends.

    The votes stay on record and do not count from the next refit on. The same file can be imported again.
    """
    with changing() as conn:
        done = retract_votes(conn, "import", str(import_id), reason=check_reason(reason), retracted_by=_BY)
    if output_format == "json":
        write_json(done)
    else:
        typer.echo(f"{counted(done.votes, 'vote')} of import {import_id} retracted; they do not count from now on.")


def _table(found: list[Import]) -> Table:
    table = make_table("Import", "Created", "File", "State", "Votes", words=("File",))
    for one in found:
        state = "undone" if one.undone_by else one.state
        created = f"{one.created_at:%Y-%m-%d %H:%M}"
        table.add_row(str(one.id), created, one_line(one.file_name), state, f"{one.counts.created:,}")
    return table
