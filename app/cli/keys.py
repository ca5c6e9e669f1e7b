import json
from dataclasses import asdict
from typing import Annotated, Any, Literal

import typer
from rich.table import Table
from rich.text import Text

from app.arena.keys import SCOPES, KeyRecord, create_key, list_keys, revoke_key
from app.cli.failures import one_line
from app.cli.outputs import write_output
from app.cli.session import open_session
from app.cli.tables import render

keys = typer.Typer(help="Make, list and revoke API keys.", add_completion=False, no_args_is_help=True)

Format = Annotated[Literal["table", "json"], typer.Option("--format", help="How to print it.")]


@keys.command()
def create(
    name: Annotated[str, typer.Argument(help="Whose key it is; written beside what is done with it.")],
    scope: Annotated[
        list[str], typer.Option(help=f"What it may do: {', '.join(SCOPES)} (admin: everything). Repeat it for several.")
    ],
    output_format: Format = "table",
) -> None:
    """Make an API key and print it, this once: it is stored as a hash and cannot be shown again."""
    with open_session() as session, session.database.begin() as conn:
        record, secret = create_key(conn, name, scope)
    if output_format == "json":
        _write_json({**_plain(record), "key": secret})
        return
    typer.echo(one_line(f"{record.name}: {', '.join(record.scopes)}. Keep the key, it is shown only now:"), err=True)
    typer.echo(secret)


@keys.command("list")
def show(output_format: Format = "table") -> None:
    """List the API keys, revoked ones too, without their secrets."""
    with open_session() as session, session.database.read() as conn:
        records = list_keys(conn)
    if output_format == "json":
        _write_json({"keys": [_plain(record) for record in records]})
    else:
        write_output(render([_table(records)]).encode(), None)


@keys.command()
def revoke(key: Annotated[str, typer.Argument(help="The key's prefix or id, as listed.")]) -> None:
    """Make an API key worthless; running servers notice within 5 seconds."""
    with open_session() as session, session.database.begin() as conn:
        record = revoke_key(conn, key)
    typer.echo(one_line(f"{record.prefix} ({record.name}) is revoked."))


def _plain(record: KeyRecord) -> dict[str, Any]:
    return {
        **asdict(record),
        "id": str(record.id),
        "created_at": record.created_at.isoformat(),
        "revoked_at": record.revoked_at.isoformat() if record.revoked_at else None,
    }


def _write_json(content: dict[str, Any]) -> None:
    write_output((json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode(), None)


def _table(records: list[KeyRecord]) -> Table:
    table = Table("prefix", "name", "scopes", "created", "revoked")
    for record in records:
        table.add_row(
            record.prefix,
            Text(one_line(record.name)),
            ", ".join(record.scopes),
            f"{record.created_at:%Y-%m-%d %H:%M}",
            f"{record.revoked_at:%Y-%m-%d %H:%M}" if record.revoked_at else "",
        )
    return table
