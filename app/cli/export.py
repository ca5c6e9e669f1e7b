"""The command `stable-arena export`."""

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Literal, cast

import typer

from app.cli.options import OutputOption, read_form, read_time
from app.cli.outputs import check_output, choose_format, move_output
from app.cli.session import open_session
from app.database.engine import Database
from app.errors import BadInputError
from app.exports.files import Exported, write_export, write_sheet
from app.exports.folders import write_dataset, write_evaluations
from app.exports.schemas import ExportFilters, Format, What
from app.exports.service import check_filters
from app.rating.errors import counted
from app.snapshots.schemas import LeaderboardMethod

CliFormat = Literal["csv", "jsonl", "parquet", "xlsx", "huggingface", "every-eval-ever"]
_FILES: tuple[CliFormat, ...] = ("csv", "jsonl", "parquet", "xlsx")
_FOLDERS: Mapping[CliFormat, tuple[What, Callable[[Database, ExportFilters, Path], Exported]]] = {
    "huggingface": ("votes", write_dataset),
    "every-eval-ever": ("leaderboard", write_evaluations),
}


def export(
    what: Annotated[What, typer.Argument(help="What to export.", show_default=False)],
    output_format: Annotated[
        CliFormat | None,
        typer.Option(
            "--format",
            help="By default what --output ends in, else csv. huggingface (votes) and every-eval-ever (leaderboard) "
            "write a folder.",
        ),
    ] = None,
    output: OutputOption = None,
    since: Annotated[str | None, typer.Option(metavar="TIME", help="Votes received at this time or later.")] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Votes received before this time.")] = None,
    model: Annotated[str | None, typer.Option(help="Votes on this model, or its answers.")] = None,
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
    """Write votes, annotators, the leaderboard or the answers to a file.

    Retracted votes are left out. CSV is safe to open in a spreadsheet: a text that it would read as a formula has an
    apostrophe in front. Votes can be imported again from each format.
    """
    period = {"since": read_time("--since", since), "until": read_time("--until", until)}
    chosen = {"model": model, "standing": standing, "snapshot": snapshot, "method": method, "tag": tag}
    filters = read_form(ExportFilters, {**period, **chosen})
    check_filters(what, filters)
    if output_format is not None and output_format in _FOLDERS:
        done = _write_folder(what, output_format, filters, output)
    else:
        done = _write_file(what, choose_format(output_format, output, _FILES), filters, output)
    typer.echo(f"{counted(done.rows, 'row')} of {what}; the recorded votes are {done.vote_set}", err=True)


def _write_file(what: What, form: CliFormat, filters: ExportFilters, output: Path | None) -> Exported:
    # Beside the output, so that the finished file takes its place in one step.
    beside = output.absolute().parent if output else None
    with (
        tempfile.TemporaryDirectory(prefix=".stable-arena-", dir=beside) as folder,
        open_session(creates=False) as session,
    ):
        path = Path(folder) / f"export.{form}"
        if form == "xlsx":
            done = write_sheet(session.database, what, filters, path)
        else:
            done = write_export(session.database, what, cast("Format", form), filters, path)
        move_output(path, output)
    return done


def _write_folder(what: What, form: CliFormat, filters: ExportFilters, output: Path | None) -> Exported:
    wanted, write = _FOLDERS[form]
    if what != wanted:
        raise BadInputError(f"--format {form} is for {wanted}, not for {what}")
    if output is None:
        raise BadInputError(f"--format {form} writes a folder: name it with --output")
    if output.exists():
        raise BadInputError(f"{output} exists: --format {form} writes a new folder")
    check_output(output)
    with (
        tempfile.TemporaryDirectory(prefix=".stable-arena-", dir=output.absolute().parent) as beside,
        open_session(creates=False) as session,
    ):
        draft = Path(beside) / "folder"
        draft.mkdir()
        done = write(session.database, filters, draft)
        draft.rename(output)
    return done
