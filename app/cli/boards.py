"""Published leaderboards on standard output or in a file."""

import sys
from pathlib import Path
from typing import Any, Literal

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from app.cli.outputs import check_output, write_output
from app.cli.tables import AS_GOOD_AS_TIED, leaderboard_table, render
from app.errors import BadInputError
from app.leaderboard.row_files import rows_csv, rows_parquet
from app.leaderboard.service import Leaderboard

BoardFormat = Literal["table", "json", "csv", "parquet"]


def check_destination(output_format: str, output: Path | None) -> None:
    """Refuse, before any work is done, a file that cannot be written and Parquet on a terminal.

    Raises
    ------
    BadInputError
    """
    if output is not None:
        check_output(output)
    elif output_format == "parquet" and sys.stdout.isatty():
        raise BadInputError("Parquet is not for a terminal: give --output FILE or a pipe")


def write_board(board: Leaderboard, output_format: BoardFormat, output: Path | None = None) -> None:
    """Print a published leaderboard, or write it to a file."""
    if output_format == "json":
        content = (board.model_dump_json(indent=2) + "\n").encode()
    elif output_format == "csv":
        content = rows_csv(board.rows(), board.columns())
    elif output_format == "parquet":
        content = rows_parquet(board.rows(), board.columns())
    else:
        parts: list[RenderableType] = [leaderboard_table(board.rows())]
        if any(row.compared for row in board.models):
            parts += ["", _comparison(board)]
        parts += [Text(line) for line in _caption(board)]
        content = render(parts, console=watched_console() if output is None else None).encode()
    write_output(content, output)


def watched_console() -> Console | None:
    """Return the terminal that standard output is, None where nobody watches."""
    console = Console()
    return console if console.is_terminal else None


def _comparison(board: Leaderboard) -> Table:
    """Return where each method has the models: what knowing the annotators changes."""
    table = Table(title="Side by side", title_justify="left", box=None, pad_edge=False, header_style="bold")
    table.add_column("Model", overflow="fold")
    others = list(board.models[0].compared) if board.models else []
    for method in (board.method, *others):
        table.add_column(method, justify="right", no_wrap=True)
    for row in board.models:
        places: list[Any] = [row, *(row.compared[other] for other in others)]
        table.add_row(Text(row.model), *(_place(one.rank, one.score) for one in places))
    return table


def _place(rank: int | None, score: float | None) -> str:
    return f"{'–' if rank is None else rank} ({'–' if score is None else f'{score:.1f}'})"


def _caption(board: Leaderboard) -> list[str]:
    snapshot = board.snapshot
    moment = snapshot.published_at.strftime("%Y-%m-%d %H:%M:%S %Z")
    of_tag = f", tag {board.tag!r}" if board.tag is not None else ""
    waiting = f"{board.votes_not_in_board:,} came in since{', the board is stale' if board.stale else ''}."
    made = f"Snapshot {snapshot.number} ({board.method}{of_tag}), {moment}"
    counted = f"{snapshot.votes_used:,} of {snapshot.votes_read:,} votes count; {waiting}"
    ties = sum(bool(row.tied) for row in board.models)
    tied = [f"{AS_GOOD_AS_TIED} {ties:,} as good as tied with the model above: a handful of votes decides."]
    return [f"{made}: {counted}", *(tied if ties else [])]
