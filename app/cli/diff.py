"""The command `stable-arena diff`: what moved between two snapshots, and why."""

from typing import Annotated

import typer
from rich.table import Table

from app.cli.options import PrintedOption
from app.cli.outputs import write_json, write_tables
from app.cli.session import reading
from app.cli.tables import make_table, number
from app.leaderboard.diff.schemas import SnapshotDiff
from app.leaderboard.diff.service import compare_snapshots
from app.snapshots.schemas import LeaderboardMethod


def diff(
    before: Annotated[str, typer.Argument(help="The earlier snapshot, by number or id.")],
    after: Annotated[str, typer.Argument(help="The later snapshot, by number or id.")],
    method: Annotated[LeaderboardMethod, typer.Option(help="Which leaderboard.")] = "am-elo",
    output_format: PrintedOption = "table",
) -> None:
    """Say what moved between two snapshots, model by model, and what had changed."""
    with reading() as conn:
        found = compare_snapshots(conn, before, after, method=method)
    if output_format == "json":
        write_json(found)
    else:
        write_tables([*(f"• {sentence}" for sentence in found.summary), "", _table(found)])


def _table(found: SnapshotDiff) -> Table:
    old, new = found.before.number, found.after.number
    columns = ("Model", "What", f"Rank in {old}", f"in {new}", f"Score in {old}", f"in {new} ", "Change")
    table = make_table(*columns, words=["Model", "What"])
    for one in found.models:
        table.add_row(
            one.model, one.kind, f"{one.rank_before or '–'}", f"{one.rank_after or '–'}",
            number(one.score_before, 1), number(one.score_after, 1), number(one.change, 1),
        )  # fmt: skip
    return table
