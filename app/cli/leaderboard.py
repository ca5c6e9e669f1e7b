from typing import Annotated

import typer

from app.arena.leaderboard import choose_leaderboard, read_leaderboard
from app.cli.boards import BoardFormat, write_board
from app.cli.session import open_session
from app.rating.results import Method


def leaderboard(
    method: Annotated[Method, typer.Option(help="am-elo weighs annotators by ability; m-elo does not.")] = "am-elo",
    output_format: Annotated[BoardFormat, typer.Option("--format", help="How to print it.")] = "table",
    snapshot: Annotated[str | None, typer.Option(help="Id or number of a snapshot; the newest by default.")] = None,
) -> None:
    """Print a published leaderboard."""
    with open_session() as session, session.database.read() as conn:
        board = read_leaderboard(conn, choose_leaderboard(conn, method=method, snapshot=snapshot))
    write_board(board, output_format)
