import json
import re
from typing import Annotated, Literal

import typer
from rich.table import Table
from rich.text import Text

from app.audit.queries import Head
from app.audit.service import AuditEntry, list_entries, verify_log
from app.cli.boards import watched_console
from app.cli.outputs import write_output
from app.cli.session import open_session
from app.cli.tables import render
from app.errors import BadInputError

_HEAD = re.compile(r"([1-9][0-9]{0,17}):([0-9a-f]{64})")

audit = typer.Typer(help="Show and verify the audit log.", no_args_is_help=True, add_completion=False)


@audit.command(name="list")
def list_log(
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, help="How many entries, the newest first.")] = 50,
    output_format: Annotated[Literal["table", "json"], typer.Option("--format", help="How to print them.")] = "table",
) -> None:
    """List who decided what, the newest first."""
    with open_session() as session, session.database.read() as conn:
        entries = list_entries(conn, limit=limit)
    if output_format == "json":
        rows = [entry.model_dump(mode="json") for entry in entries]
        content = (json.dumps({"entries": rows}, indent=2, ensure_ascii=False) + "\n").encode()
    else:
        content = render([_table(entries)], console=watched_console()).encode()
    write_output(content, None)


@audit.command()
def verify(
    head: Annotated[
        str | None, typer.Option(help="NUMBER:HASH of an entry that was noted outside the database earlier.")
    ] = None,
) -> None:
    """Check that nothing in the audit log was changed, removed or cut off; exits 1 where something was."""
    noted = None
    if head is not None:
        match = _HEAD.fullmatch(head)
        if match is None:
            raise BadInputError("--head must be NUMBER:HASH, the hash 64 hexadecimal digits")
        noted = Head(int(match[1]), bytes.fromhex(match[2]))
    with open_session() as session, session.database.read() as conn:
        found = verify_log(conn, noted)
    if found.head is None:
        typer.echo("The audit log is empty.")
    else:
        typer.echo(f"{found.entries:,} entries, all as they were written. Head: {found.entries}:{found.head}")


def _table(entries: list[AuditEntry]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("No.", "When", "Who", "What", "On", "Detail"):
        table.add_column(column, overflow="fold")
    for entry in entries:
        when = entry.happened_at.strftime("%Y-%m-%d %H:%M:%S %Z")
        detail = json.dumps(entry.detail, ensure_ascii=False)
        table.add_row(str(entry.number), when, Text(entry.actor), Text(entry.action), Text(entry.subject), Text(detail))
    return table
