"""The command `stable-arena export`."""

import tempfile
from pathlib import Path
from typing import Annotated, Literal, get_args

import typer

from app.cli.options import read_form, read_time
from app.cli.outputs import choose_format, move_output
from app.cli.session import open_session
from app.exports.files import write_export
from app.exports.schemas import ExportFilters, Format, What
from app.exports.service import check_filters
from app.rating.errors import counted
from app.snapshots.schemas import LeaderboardMethod


def export(
    what: Annotated[What, typer.Argument(help="What to export.", show_default=False)],
    output_format: Annotated[
        Format | None, typer.Option("--format", help="By default what --output ends in, else csv.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write there instead of to standard output.")
    ] = None,
    since: Annotated[str | None, typer.Option(metavar="TIME", help="Votes received at this time or later.")] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Votes received before this time.")] = None,
    model: Annotated[str | None, typer.Option(help="Votes on this model, by name or alias.")] = None,
    standing: Annotated[
        Literal["pending", "active", "flagged", "excluded", "trusted"] | None,
        typer.Option(help="Annotators of this standing."),
    ] = None,
    snapshot: Annotated[
        str | None, typer.Option(help="The votes, or the leaderboard, of this snapshot (id or number).")
    ] = None,
    method: Annotated[
        LeaderboardMethod | None, typer.Option(help="Which of the leaderboards.", show_default="am-elo")
    ] = None,
    tag: Annotated[str | None, typer.Option(help="The leaderboard of the votes with this tag.")] = None,
) -> None:
    """Write votes, annotators or the leaderboard to a file.

    Retracted votes are left out. CSV is safe to open in a spreadsheet: a text that it would read as a formula has an
    apostrophe in front. Votes can be imported again from each format.
    """
    form = choose_format(output_format, output, get_args(Format))
    period = {"since": read_time("--since", since), "until": read_time("--until", until)}
    chosen = {"model": model, "standing": standing, "snapshot": snapshot, "method": method, "tag": tag}
    filters = read_form(ExportFilters, {**period, **chosen})
    check_filters(what, filters)
    # Beside the output, so that the finished file takes its place in one step.
    beside = output.absolute().parent if output else None
    with (
        tempfile.TemporaryDirectory(prefix=".stable-arena-", dir=beside) as folder,
        open_session(creates=False) as session,
    ):
        path = Path(folder) / f"export.{form}"
        done = write_export(session.database, what, form, filters, path)
        move_output(path, output)
    typer.echo(f"{counted(done.rows, 'row')} of {what}; the recorded votes are {done.vote_set}", err=True)
