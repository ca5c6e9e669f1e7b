"""The commands `stable-arena migrate` and `compile`: what an installation runs once."""

import time
from typing import Annotated

import typer

from app.cli.session import open_any_schema
from app.database.schema import needed_revision, take_back, upgrade_within
from app.errors import BadInputError


def migrate(
    to: Annotated[
        str | None,
        typer.Option(
            metavar="REVISION",
            help="Go back to this earlier schema, for an earlier version. Data that only later schemas hold are lost.",
        ),
    ] = None,
    delete_votes: Annotated[
        bool, typer.Option("--delete-votes", help="With --to: delete the votes that the earlier schema cannot hold.")
    ] = False,
) -> None:
    """Bring the database to the schema of this version."""
    if delete_votes and to is None:
        raise BadInputError("--delete-votes is for --to")
    deleted = 0
    with open_any_schema(creates=True) as database, database.begin() as conn:
        if to is None:
            upgrade_within(conn)
        else:
            deleted = take_back(conn, to, delete_votes=delete_votes)
    typer.echo(f"The schema is at {to or needed_revision()}.")
    if deleted:
        typer.echo(f"{deleted:,} votes are deleted.")


def compile_ahead() -> None:
    """Compile the numeric kernels once, so that the first fit need not.

    The machine code is kept beside the installed package, or in the user's cache. It takes about a minute.
    """
    # numba, for this command alone
    from app.rating.compile import compile_kernels  # noqa: PLC0415
    from app.votes.batch_items import compile_batch_scan  # noqa: PLC0415

    started = time.monotonic()

    def show(step: str) -> None:
        typer.echo(f"{time.monotonic() - started:3.0f} s  Compiling: {step}")

    typer.echo("Compiling the kernels takes about a minute, once.")
    compile_kernels(show)
    show("batches")
    compile_batch_scan()
    typer.echo(f"Compiled in {time.monotonic() - started:.0f} s.")
