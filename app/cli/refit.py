import logging
from typing import Annotated, Literal

import typer

from app.arena.leaderboard import choose_leaderboard, read_leaderboard
from app.arena.refit_now import refit_now
from app.cli.boards import write_board
from app.cli.logs import log_to_stderr
from app.cli.session import open_session


def refit(
    accept_exclusions: Annotated[
        bool,
        typer.Option("--accept-exclusions", help="Publish even if more votes are excluded than the policy allows."),
    ] = False,
    output_format: Annotated[Literal["table", "json"], typer.Option("--format", help="How to print it.")] = "table",
) -> None:
    """Refit now and print the new leaderboard.

    Where a worker is at a refit already, it runs this one next and the command waits for it.
    """
    log_to_stderr(logging.ERROR)  # how it ended is what the command says
    with open_session() as session:
        done = refit_now(
            session.database,
            lease_seconds=session.settings.worker.lease_seconds,
            requested_by="command line",
            accept_exclusions=accept_exclusions,
        )
        with session.database.read() as conn:
            board = read_leaderboard(conn, choose_leaderboard(conn, snapshot=str(done.snapshot_id)))
    write_board(board, output_format)
