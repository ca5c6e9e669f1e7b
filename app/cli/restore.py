"""The command `stable-arena restore`."""

from pathlib import Path
from typing import Annotated

import typer

from app.backups.restore import refit_newest, restore_backup
from app.cli.session import open_any_schema
from app.errors import StableArenaError
from app.rating.errors import counted


class NotRestoredExactlyError(StableArenaError):
    """The newest snapshot, refitted from the restored votes, has other numbers than those published."""

    code = "not-restored-exactly"
    title = "The restored leaderboard is another one"


def restore(
    file: Annotated[Path, typer.Argument(help="A file of `stable-arena backup`.", exists=True, dir_okay=False)],
    verify: Annotated[
        bool, typer.Option("--verify/--no-verify", help="Refit the newest snapshot, and compare all its numbers.")
    ] = True,
) -> None:
    """Fill an empty database from a backup, and check it by a refit.

    The database is the one that the settings name. It must be empty; one that `serve` has only been started on will do.
    The backup may be of an earlier schema, another server, or another version of PostgreSQL. If the command is
    stopped, the database is as empty as before.
    """
    with open_any_schema(creates=True) as database:
        manifest = restore_backup(database, file)
        typer.echo(f"Restored {counted(manifest.rows, 'row')} of {manifest.made_at}.")
        if not verify:
            return
        if not manifest.reproducible:
            typer.echo("Not verified: the votes had come from a dump of another server, whose vote sets are not known.")
            return
        made = refit_newest(database)
    if made is None:
        typer.echo("There is no snapshot to verify.")
    elif made.reproduced:
        typer.echo(f"Snapshot {made.number}, refitted from {counted(made.votes, 'vote')}, has the same numbers.")
    else:
        detail = (
            f"they differ by up to {made.largest_difference:g}" if made.same_votes else "its votes are not the same"
        )
        raise NotRestoredExactlyError(
            f"all rows are restored, but snapshot {made.number} is not as published: {detail}"
        )
