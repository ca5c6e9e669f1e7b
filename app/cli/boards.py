"""Published leaderboards on standard output."""

from typing import Literal

from rich.console import Console
from rich.text import Text

from app.arena.leaderboard import Leaderboard
from app.arena.row_files import rows_csv
from app.cli.outputs import write_output
from app.cli.tables import leaderboard_table, render

BoardFormat = Literal["table", "json", "csv"]


def write_board(board: Leaderboard, output_format: BoardFormat) -> None:
    """Print a published leaderboard."""
    if output_format == "json":
        content = (board.model_dump_json(indent=2) + "\n").encode()
    elif output_format == "csv":
        content = rows_csv(board.rows())
    else:
        content = render([leaderboard_table(board.rows()), Text(_caption(board))], console=watched_console()).encode()
    write_output(content, None)


def watched_console() -> Console | None:
    """Return the terminal that standard output is, None where nobody watches."""
    console = Console()
    return console if console.is_terminal else None


def _caption(board: Leaderboard) -> str:
    snapshot = board.snapshot
    moment = snapshot.published_at.strftime("%Y-%m-%d %H:%M:%S %Z")
    return (
        f"Snapshot {snapshot.number} ({board.method}), {moment}: {snapshot.votes_used:,} of {snapshot.votes_read:,} "
        f"votes count; {board.votes_not_in_board:,} came in since."
    )
