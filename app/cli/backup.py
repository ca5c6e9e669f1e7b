"""The command `stable-arena backup`."""

from pathlib import Path
from typing import Annotated

import typer

from app.backups.backup import drop_old_backups, write_backup
from app.cli.session import open_any_schema
from app.errors import BadInputError
from app.rating.errors import counted


def backup(
    target: Annotated[
        Path, typer.Argument(metavar="FILE|DIR", help="The file to make, or a folder that gets one named by the time.")
    ],
    keep: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Then delete all but the N newest backups that are named by their time."),
    ] = None,
) -> None:
    """Write the whole database to one file, while votes come in.

    The file holds what one transaction sees, and is read once more before it gets its name. It has no settings:
    keep STABLE_ARENA_PSEUDONYM_KEY elsewhere. It holds what the database holds, so keep it as private.
    """
    if keep is not None and not target.is_dir():
        raise BadInputError(f"--keep needs a folder that exists: {target} is none")
    with open_any_schema() as database:
        path, manifest = write_backup(database, target)
    typer.echo(f"{path}: {counted(manifest.rows, 'row')}, {path.stat().st_size / 1e6:,.1f} MB")
    for old in drop_old_backups(target, keep) if keep is not None else ():
        typer.echo(f"{old}: deleted")
