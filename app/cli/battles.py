"""The command `stable-arena battles`: see the battles that the service drew."""

from typing import Annotated
from uuid import UUID

import typer
from rich.console import RenderableType

from app.battles import service
from app.battles.exposure.schemas import Counts, Exposure
from app.battles.exposure.service import report_exposure
from app.battles.schemas import BattleState
from app.cli.options import PrintedOption, read_time
from app.cli.outputs import print_result
from app.cli.session import reading
from app.cli.tables import make_table, number

_COUNTED = ("Offered", "Voted", "Skipped", "Expired")


battles = typer.Typer(add_completion=False, no_args_is_help=True)


@battles.callback()
def about() -> None:
    """See the battles that the service drew.

    docs/battles.md says how it draws them.
    """


@battles.command("list")
def list_battles(
    annotator: Annotated[str | None, typer.Option(help="Only those of this annotator, by id or key.")] = None,
    state: Annotated[BattleState | None, typer.Option(help="Only those in this state.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="List at most so many.")] = 50,
    output_format: PrintedOption = "table",
) -> None:
    """List battles, the newest first."""
    with reading() as conn:
        found = service.list_battles(conn, limit=limit, before=None, annotator=annotator, state=state)
    words = ("Battle", "Drawn", "State", "Annotator", "Left", "Right", "Drawn by")
    rows = [
        (
            str(one.battle_id), f"{one.created_at:%Y-%m-%d %H:%M:%S}", one.skip_reason or one.state,
            one.annotator, one.left, one.right, one.drawn_by, f"{one.propensity:.3g}",
        )
        for one in found
    ]  # fmt: skip
    print_result(output_format, {"battles": found}, make_table(*words, "Propensity", rows=rows, words=words))


@battles.command()
def show(
    battle: Annotated[UUID, typer.Argument(help="The battle's id.")], output_format: PrintedOption = "table"
) -> None:
    """Show a battle: what was drawn, from which models, and how it ended."""
    with reading() as conn:
        found = service.find_battle(conn, battle)
    rows = [
        (name, ", ".join(value) if isinstance(value, list) else "–" if value is None else str(value))
        for name, value in found.model_dump(mode="json").items()
    ]
    print_result(output_format, found, make_table("", "", rows=rows))


@battles.command()
def exposure(
    since: Annotated[str | None, typer.Option(help="Battles drawn at this time or later.")] = None,
    until: Annotated[str | None, typer.Option(help="Battles drawn before this time; by default now.")] = None,
    snapshot: Annotated[str | None, typer.Option(help="Only battles drawn from it, by id or number.")] = None,
    tag: Annotated[str | None, typer.Option(help="Only battles with this tag.")] = None,
    output_format: PrintedOption = "table",
) -> None:
    """Report which battles were offered, how they ended, and what the policy intended: by default of the last day."""
    begin, end = read_time("--since", since), read_time("--until", until)
    with reading() as conn:
        found = report_exposure(conn, since=begin, until=end, snapshot=snapshot, tag=tag)
    print_result(output_format, found, *_exposure_tables(found))


def _exposure_tables(found: Exposure) -> list[RenderableType]:
    models = [
        (one.model, f"{one.candidate_share:.0%}", *_figures(one), f"{one.compared:,}", number(one.intended, 1))
        for one in found.models
    ]
    organizations = list[tuple[str, ...]]()
    for one in found.organizations:
        best: tuple[str, ...] = ()
        if one.best is not None:
            interval = f"{one.best.adjusted_lower:.1f} to {one.best.adjusted_upper:.1f}"
            best = (one.best.model, number(one.best.score, 1), number(one.best.adjusted_score, 1), interval)
        organizations.append((one.organization, f"{one.models:,}", *_figures(one), *best))
    tables = [
        make_table("Model", "Candidate in", *_COUNTED, "Compared", "Intended", rows=models, words=["Model"]),
        make_table("Organization", "Models", *_COUNTED, "Best", "Score", "Adjusted", "95 %",
                   rows=organizations, words=["Organization", "Best"]),
        make_table("Tag", *_COUNTED, rows=[(one.tag, *_figures(one)) for one in found.tags], words=["Tag"]),
        make_table("Day", *_COUNTED, rows=[(f"{one.day}", *_figures(one)) for one in found.days], words=["Day"]),
    ]  # fmt: skip
    alarms = [f"! {alarm.model}: {alarm.code}: {alarm.detail}" for alarm in found.alarms]
    return [*(table for table in tables if table.row_count), *alarms]


def _figures(counts: Counts) -> tuple[str, ...]:
    return tuple(f"{value:,}" for value in (counts.offered, counts.voted, counts.skipped, counts.expired))
