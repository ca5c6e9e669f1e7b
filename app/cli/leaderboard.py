from pathlib import Path
from typing import Annotated, Literal, cast, get_args

import typer

from app.cli.boards import check_destination, write_board
from app.cli.outputs import write_output
from app.cli.session import open_session
from app.errors import BadInputError
from app.leaderboard.catalog import make_catalog
from app.leaderboard.service import choose_leaderboard, read_leaderboard
from app.snapshots.methods import BoardMethod

_Format = Literal["table", "json", "csv", "parquet", "arena-catalog"]
_METHODS: tuple[BoardMethod, ...] = get_args(BoardMethod)


def leaderboard(
    method: Annotated[
        BoardMethod,
        typer.Option(
            help="am-elo weighs annotators by ability, m-elo does not, m-elo-all counts everybody, elo is by order."
        ),
    ] = "am-elo",
    tag: Annotated[str | None, typer.Option(help="Scores from the votes with this tag alone.")] = None,
    compare: Annotated[
        str | None,
        typer.Option(metavar="METHOD,…", help="Other boards of the snapshot to show beside, such as m-elo,m-elo-all."),
    ] = None,
    output_format: Annotated[_Format, typer.Option("--format", help="How to print it.")] = "table",
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write there instead of to standard output.")
    ] = None,
    snapshot: Annotated[str | None, typer.Option(help="Id or number of a snapshot; the newest by default.")] = None,
) -> None:
    """Print a published leaderboard."""
    check_destination(output_format, output)
    others = _methods(compare)
    with open_session() as session, session.database.read() as conn:
        version = choose_leaderboard(conn, method=method, tag=tag, compare=others, snapshot=snapshot)
        if output_format == "arena-catalog":
            catalog = make_catalog(conn, version)
        else:
            board = read_leaderboard(conn, version)
    if output_format == "arena-catalog":
        write_output((catalog.model_dump_json(indent=2) + "\n").encode(), output)
    else:
        write_board(board, output_format, output)


def _methods(text: str | None) -> list[BoardMethod]:
    """Return the methods of a list with commas between."""
    named = [] if text is None else [name.strip() for name in text.split(",")]
    unknown = [name for name in named if name not in _METHODS]
    if unknown:
        raise BadInputError(f"--compare: {unknown[0]!r} is none of {', '.join(_METHODS)}")
    return cast("list[BoardMethod]", named)
