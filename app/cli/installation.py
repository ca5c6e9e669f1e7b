"""The commands `stable-arena migrate` and `compile`: what an installation runs once."""

import time
from typing import Annotated

import typer

from app.cli.session import open_any_schema
from app.database.schema import downgrade_within, needed_revision, upgrade_within
from app.errors import BadInputError


def migrate(
    to: Annotated[
        str | None,
        typer.Option(
            metavar="REVISION",
            help="Go back to this earlier schema, for an earlier version. Data that only later schemas hold are lost.",
        ),
    ] = None,
) -> None:
    """Bring the database to the schema of this version; harmless when it is there already."""
    if to == "base":
        raise BadInputError("the revision base is the empty schema: going back to it would drop the votes")
    with open_any_schema(creates=True) as database, database.begin() as conn:
        if to is None:
            upgrade_within(conn)
        else:
            downgrade_within(conn, to)
    typer.echo(f"The schema is at {to or needed_revision()}.")


def compile_ahead() -> None:
    """Compile the numeric kernels once, so that the first refit, `rate` or batch of votes need not.

    The machine code is kept beside the installed package, or in the user's cache. It takes about half a minute.
    """
    # numba, for this command alone
    from app.rating.compile import compile_kernels  # noqa: PLC0415
    from app.votes.batch_items import compile_batch_scan  # noqa: PLC0415

    started = time.monotonic()
    compile_kernels(lambda step: typer.echo(f"Compiling: {step}"))
    typer.echo("Compiling: batches")
    compile_batch_scan()
    typer.echo(f"Compiled in {time.monotonic() - started:.0f} s.")
