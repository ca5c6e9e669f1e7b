import os
import shutil
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

import typer

from app.cli.outputs import check_output
from app.cli.session import open_session
from app.errors import BadInputError
from app.exports.service import Exported, Filters, Format, What, check_filters, write_export
from app.snapshots.methods import BoardMethod

_ENDINGS: dict[str, Format] = {".csv": "csv", ".jsonl": "jsonl", ".parquet": "parquet"}


def export(
    what: Annotated[What, typer.Argument(help="What to export.", show_default=False)],
    output_format: Annotated[
        Format | None, typer.Option("--format", help="By default what --output ends in, else csv.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write there instead of to standard output.")
    ] = None,
    since: Annotated[str | None, typer.Option(metavar="MOMENT", help="Votes received from this moment on.")] = None,
    until: Annotated[str | None, typer.Option(metavar="MOMENT", help="Votes received before this moment.")] = None,
    model: Annotated[str | None, typer.Option(help="Votes on this model, by name or alias.")] = None,
    standing: Annotated[
        Literal["pending", "active", "flagged", "excluded", "trusted"] | None,
        typer.Option(help="Annotators of this standing."),
    ] = None,
    snapshot: Annotated[
        str | None, typer.Option(help="Votes that this snapshot (id or number) was made of; its leaderboard.")
    ] = None,
    method: Annotated[
        BoardMethod | None, typer.Option(help="Which of the leaderboards.", show_default="am-elo")
    ] = None,
    tag: Annotated[str | None, typer.Option(help="The leaderboard of the votes with this tag.")] = None,
) -> None:
    """Write votes, annotators or the leaderboard to a file.

    Retracted votes are left out. CSV is made safe for spreadsheets: a text that would be taken for a formula has an
    apostrophe in front. Votes can be imported again from any of the formats.
    """
    form = output_format or _ENDINGS.get(output.suffix.lower() if output else "", "csv")
    if output is not None:
        check_output(output)
    elif form == "parquet" and sys.stdout.isatty():
        raise BadInputError("Parquet is not for a terminal: give --output FILE or a pipe")
    filters = Filters(
        since=_moment("--since", since),
        until=_moment("--until", until),
        model=model,
        standing=standing,
        snapshot=snapshot,
        method=method,
        tag=tag,
    )
    check_filters(what, filters)
    # Beside the output, so that the finished file takes its place in one step.
    with (
        tempfile.TemporaryDirectory(
            prefix=".stable-arena-", dir=output.absolute().parent if output else None
        ) as folder,
        open_session() as session,
    ):
        path = Path(folder) / f"export.{form}"
        done = write_export(session.database, what, form, filters, path)
        _hand_over(path, output)
    _tell(what, done)


def _hand_over(path: Path, output: Path | None) -> None:
    if output is None:
        with path.open("rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
        sys.stdout.flush()  # a closed pipe shows here, not at interpreter exit where nobody can catch it
        return
    if output.exists() and not output.is_file():
        shutil.copyfile(path, output)  # a device or a pipe cannot be replaced
        return
    target = output.resolve()
    with path.open("rb+") as file:
        os.fsync(file.fileno())
    path.chmod(target.stat().st_mode & 0o7777 if target.exists() else 0o666 & ~_umask())
    path.replace(target)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _moment(option: str, text: str | None) -> datetime | None:
    """Return a moment; one without an offset is in UTC."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise BadInputError(f"{option} must be a moment such as 2026-01-31T12:00:00Z, is {text!r}") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _tell(what: str, done: Exported) -> None:
    typer.echo(f"{done.rows:,} rows of {what}; the votes on record are {done.vote_set}", err=True)
