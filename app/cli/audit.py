"""The command `stable-arena audit`: list the audit log and verify it."""

import json
import re
from typing import Annotated

import typer

from app.audit.queries import Head
from app.audit.service import list_entries, verify_log
from app.cli.options import PrintedOption
from app.cli.outputs import print_list
from app.cli.session import reading
from app.errors import BadInputError
from app.snapshots.queries import list_audit_heads

_HEAD = re.compile(r"([1-9][0-9]{0,17}):([0-9a-f]{64})")

audit = typer.Typer(add_completion=False, no_args_is_help=True)


@audit.command(name="list")
def list_log(
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, help="How many entries, the newest first.")] = 50,
    output_format: PrintedOption = "table",
) -> None:
    """List who decided what, the newest first."""
    with reading() as conn:
        entries = list_entries(conn, limit=limit)
    when = ("When", lambda entry: f"{entry.happened_at:%Y-%m-%d %H:%M:%S %Z}")
    detail = ("Detail", lambda entry: json.dumps(entry.detail, ensure_ascii=False))
    columns = ("No.=number", when, "Who=actor", "What=action", "On=subject", detail)
    print_list(output_format, "entries", entries, *columns)


@audit.command()
def verify(
    head: Annotated[
        str | None, typer.Option(help="NUMBER:HASH of an entry, noted outside the database at an earlier time.")
    ] = None,
) -> None:
    """Check that no entry of the audit log was changed or removed; exit with 1 if one was."""
    noted: dict[str, Head] = {}
    if head is not None:
        match = _HEAD.fullmatch(head)
        if match is None:
            raise BadInputError("--head must be NUMBER:HASH, the hash 64 hexadecimal digits")
        noted["the noted head"] = Head(int(match[1]), bytes.fromhex(match[2]))
    with reading() as conn:
        published = {f"snapshot {number}": head for number, head in list_audit_heads(conn)}
        found = verify_log(conn, published | noted)
    if found.head is None:
        typer.echo("The audit log is empty.")
    else:
        entries = f"{found.entries:,} entries, all" if found.entries != 1 else "1 entry,"
        typer.echo(f"{entries} as written. Head: {found.entries}:{found.head}")
