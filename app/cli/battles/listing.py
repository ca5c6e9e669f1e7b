"""The commands `battles list` and `battles show`."""

from collections.abc import Sequence
from typing import Annotated
from uuid import UUID

import typer
from rich.table import Table

from app.battles import service
from app.battles.schemas import Battle, BattleState
from app.cli.options import PrintedOption
from app.cli.outputs import write_json, write_tables
from app.cli.session import reading
from app.cli.tables import make_table


def list_battles(
    annotator: Annotated[str | None, typer.Option(help="Only those of this annotator, by id or key.")] = None,
    state: Annotated[BattleState | None, typer.Option(help="Only those in this state.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="List at most so many.")] = 50,
    output_format: PrintedOption = "table",
) -> None:
    """List battles, the newest first."""
    with reading() as conn:
        found = service.list_battles(conn, limit=limit, before=None, annotator=annotator, state=state)
    if output_format == "json":
        write_json({"battles": [battle.model_dump(mode="json") for battle in found]})
    else:
        write_tables([_table(found)])


def show(
    battle: Annotated[UUID, typer.Argument(help="The battle's id.")], output_format: PrintedOption = "table"
) -> None:
    """Show a battle: what was drawn, from which models, and how it ended."""
    with reading() as conn:
        found = service.find_battle(conn, battle)
    if output_format == "json":
        write_json(found)
        return
    table = make_table("", "")
    for name, value in found.model_dump(mode="json").items():
        table.add_row(name, ", ".join(value) if isinstance(value, list) else "–" if value is None else str(value))
    write_tables([table])


def _table(found: Sequence[Battle]) -> Table:
    words = ("Battle", "Drawn", "State", "Annotator", "Left", "Right", "Drawn by")
    table = make_table(*words, "Propensity", words=words)
    for one in found:
        table.add_row(
            str(one.battle_id), f"{one.created_at:%Y-%m-%d %H:%M:%S}", one.skip_reason or one.state,
            one.annotator, one.left, one.right, one.drawn_by, f"{one.propensity:.3g}",
        )  # fmt: skip
    return table
