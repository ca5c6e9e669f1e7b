"""The command `stable-arena keys`: make, list, rotate and revoke API keys, and sign a browser in with one."""

from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from app.auth.callers import SCOPES
from app.auth.keys import COMMAND_LINE, create_key, list_keys, revoke_key, rotate_key
from app.auth.schemas import MAX_OVERLAP, Key
from app.auth.sessions.service import make_link, sign_in_address
from app.cli.failures import one_line
from app.cli.options import Printed, PrintedOption
from app.cli.outputs import print_list, print_made
from app.cli.session import changing, open_session, reading

keys = typer.Typer(add_completion=False, no_args_is_help=True)


@keys.command()
def create(
    name: Annotated[str, typer.Argument(help="Who or what uses the key; recorded with everything it does.")],
    scope: Annotated[
        list[str], typer.Option(help=f"What it may do: {', '.join(SCOPES)} (admin: everything). Repeat it for several.")
    ],
    expires: Annotated[
        datetime | None,
        typer.Option(formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"], help="When it stops working (UTC); never by default."),
    ] = None,
    requests_per_minute: Annotated[
        int | None, typer.Option(min=1, help="A limit for this key, in place of the service's.")
    ] = None,
    output_format: PrintedOption = "table",
) -> None:
    """Make an API key and print it once: only its hash is stored, so that it cannot be shown again."""
    expires_at = expires.replace(tzinfo=UTC) if expires is not None else None
    with changing(creates=True) as conn:
        record, secret = create_key(conn, name, scope, expires_at=expires_at, requests_per_minute=requests_per_minute)
    _show_once(record, secret, output_format)


@keys.command("list")
def show(output_format: PrintedOption = "table") -> None:
    """List the API keys, also the revoked ones, without their secrets."""
    with reading() as conn:
        records = list_keys(conn)
    times = ("Created=created_at", "Expires=expires_at", "Revoked=revoked_at")
    print_list(output_format, "keys", records, "Prefix=prefix", "Name=name", "Scopes=scopes", *times)


@keys.command()
def rotate(
    key: Annotated[str, typer.Argument(help="The key's prefix or id, as listed.")],
    overlap: Annotated[
        int,
        typer.Option(min=0, max=int(MAX_OVERLAP.total_seconds()), help="Seconds for which the old key still works."),
    ] = 3600,
    output_format: PrintedOption = "table",
) -> None:
    """Replace an API key by a new one with the same name, scopes and limit, and print the new one once."""
    with changing() as conn:
        record, secret = rotate_key(conn, key, overlap=timedelta(seconds=overlap))
    _show_once(record, secret, output_format)


@keys.command()
def revoke(key: Annotated[str, typer.Argument(help="The key's prefix or id, as listed.")]) -> None:
    """End an API key; running servers refuse it within 5 seconds."""
    with changing() as conn:
        record = revoke_key(conn, key)
    typer.echo(one_line(f"{record.prefix} ({record.name}) is revoked."))


@keys.command("sign-in-link")
def sign_in_link(
    key: Annotated[str, typer.Argument(help="The key's prefix or id, as listed.")],
    minutes: Annotated[int, typer.Option(min=1, max=60, help="How long the link works.")] = 10,
    address: Annotated[
        str | None, typer.Option(help="Where browsers reach the service [http://127.0.0.1 and its port].")
    ] = None,
) -> None:
    """Print a link that signs a browser in to the console once, as the key's owner, without showing the key."""
    with open_session(creates=False) as session, session.database.begin() as conn:
        ticket = make_link(conn, key, lifetime=timedelta(minutes=minutes), actor=COMMAND_LINE)
    base = address or f"http://127.0.0.1:{session.settings.server.port}"
    typer.echo(sign_in_address(base, ticket))


def _show_once(record: Key, secret: str, output_format: Printed) -> None:
    if output_format != "json":
        said = f"{record.name}: {', '.join(record.scopes)}. Keep the key, it is shown only now:"
        typer.echo(one_line(said), err=True)
    print_made(output_format, {**record.model_dump(mode="json"), "key": secret}, secret)
