"""The commands `stable-arena backup` and `restore`."""

from pathlib import Path
from typing import Annotated

import typer

from app.backups.backup import drop_old_backups, write_backup
from app.backups.restore import refit_newest, restore_backup
from app.cli.session import open_any_schema
from app.errors import BadInputError, StableArenaError
from app.rating.errors import counted
from app.refits.load import NotReproducibleError


class NotRestoredExactlyError(StableArenaError):
    """The newest snapshot, refitted from the restored votes, has other numbers than those published."""

    code = "not-restored-exactly"
    title = "The restored leaderboard is another one"


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
        try:
            made = refit_newest(database)
        except NotReproducibleError as error:
            typer.echo(f"Not verified: {error.detail}.")
            return
    if made is None:
        typer.echo("There is no snapshot to verify.")
    elif made.reproduced:
        typer.echo(f"Snapshot {made.number}, refitted from {counted(made.votes, 'vote')}, has the same numbers.")
    elif made.explained:
        typer.echo(
            f"Snapshot {made.number} has the same {counted(made.votes, 'vote')}. Version {made.code_version} made it "
            f"by another method: refitted, scores differ by up to {made.differences.get('score', 0.0):g}."
        )
    else:
        detail = (
            f"they differ by up to {made.largest_difference:g}" if made.same_votes else "its votes are not the same"
        )
        raise NotRestoredExactlyError(
            f"all rows are restored, but snapshot {made.number} is not as published: {detail}"
        )
