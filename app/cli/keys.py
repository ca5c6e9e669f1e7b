import json
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

import typer
from rich.table import Table
from rich.text import Text

from app.auth.service import MAX_OVERLAP, SCOPES, KeyRecord, create_key, list_keys, revoke_key, rotate_key
from app.cli.failures import one_line
from app.cli.outputs import write_output
from app.cli.session import open_session
from app.cli.tables import render

keys = typer.Typer(help="Make, list, rotate and revoke API keys.", add_completion=False, no_args_is_help=True)

Format = Annotated[Literal["table", "json"], typer.Option("--format", help="How to print it.")]


@keys.command()
def create(
    name: Annotated[str, typer.Argument(help="Whose key it is; written beside what is done with it.")],
    scope: Annotated[
        list[str], typer.Option(help=f"What it may do: {', '.join(SCOPES)} (admin: everything). Repeat it for several.")
    ],
    expires: Annotated[
        datetime | None,
        typer.Option(formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"], help="When it stops working (UTC); never by default."),
    ] = None,
    requests_per_minute: Annotated[
        int | None, typer.Option(min=1, help="A limit of its own in place of the service's.")
    ] = None,
    output_format: Format = "table",
) -> None:
    """Make an API key and print it, this once: it is stored as a hash and cannot be shown again."""
    moment = expires.replace(tzinfo=UTC) if expires is not None else None
    with open_session() as session, session.database.begin() as conn:
        record, secret = create_key(conn, name, scope, expires_at=moment, requests_per_minute=requests_per_minute)
    _show_once(record, secret, output_format)


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
def rotate(
    key: Annotated[str, typer.Argument(help="The key's prefix or id, as listed.")],
    overlap: Annotated[
        int,
        typer.Option(
            min=0, max=int(MAX_OVERLAP.total_seconds()), help="Seconds for which the old key works beside the new one."
        ),
    ] = 3600,
    output_format: Format = "table",
) -> None:
    """Replace an API key by a new one of the same name, scopes and limit, and print that one, this once."""
    with open_session() as session, session.database.begin() as conn:
        record, secret = rotate_key(conn, key, overlap=timedelta(seconds=overlap))
    _show_once(record, secret, output_format)


@keys.command()
def revoke(key: Annotated[str, typer.Argument(help="The key's prefix or id, as listed.")]) -> None:
    """Make an API key worthless; running servers notice within 5 seconds."""
    with open_session() as session, session.database.begin() as conn:
        record = revoke_key(conn, key)
    typer.echo(one_line(f"{record.prefix} ({record.name}) is revoked."))


def _show_once(record: KeyRecord, secret: str, output_format: Literal["table", "json"]) -> None:
    if output_format == "json":
        _write_json({**_plain(record), "key": secret})
        return
    typer.echo(one_line(f"{record.name}: {', '.join(record.scopes)}. Keep the key, it is shown only now:"), err=True)
    typer.echo(secret)


def _plain(record: KeyRecord) -> dict[str, Any]:
    return {
        **asdict(record),
        "id": str(record.id),
        "created_at": record.created_at.isoformat(),
        "revoked_at": record.revoked_at.isoformat() if record.revoked_at else None,
        "expires_at": record.expires_at.isoformat() if record.expires_at else None,
        "replaced_by": str(record.replaced_by) if record.replaced_by else None,
    }


def _write_json(content: dict[str, Any]) -> None:
    write_output((json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode(), None)


def _table(records: list[KeyRecord]) -> Table:
    table = Table("prefix", "name", "scopes", "created", "expires", "revoked")
    for record in records:
        table.add_row(
            record.prefix,
            Text(one_line(record.name)),
            ", ".join(record.scopes),
            f"{record.created_at:%Y-%m-%d %H:%M}",
            f"{record.expires_at:%Y-%m-%d %H:%M}" if record.expires_at else "",
            f"{record.revoked_at:%Y-%m-%d %H:%M}" if record.revoked_at else "",
        )
    return table
