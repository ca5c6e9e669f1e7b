"""The command `stable-arena battles`: see the battles that the service drew."""

from operator import itemgetter
from typing import Annotated
from uuid import UUID

import typer
from rich.console import RenderableType

from app.battles import service
from app.battles.exposure.schemas import Exposure, OrganizationExposure
from app.battles.exposure.service import report_exposure
from app.battles.schemas import BattleState
from app.cli.options import PrintedOption, read_time
from app.cli.outputs import print_list, print_result
from app.cli.session import reading
from app.cli.tables import shown, table_of

_COUNTED = ("Offered=offered", "Voted=voted", "Skipped=skipped", "Expired=expired")


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
    drawn = ("Drawn", lambda one: f"{one.created_at:%Y-%m-%d %H:%M:%S}")
    ended = ("State", lambda one: one.skip_reason or one.state)
    columns = ("Annotator=annotator", "Left=left", "Right=right", "Drawn by=drawn_by", "Propensity=propensity:.3g")
    print_list(output_format, "battles", found, "Battle=battle_id", drawn, ended, *columns)


@battles.command()
def show(
    battle: Annotated[UUID, typer.Argument(help="The battle's id.")], output_format: PrintedOption = "table"
) -> None:
    """Show a battle: what was drawn, from which models, and how it ended."""
    with reading() as conn:
        found = service.find_battle(conn, battle)
    value = ("", lambda one: "–" if one[1] is None else ", ".join(one[1]) if isinstance(one[1], list) else str(one[1]))
    print_result(output_format, found, [table_of(found.model_dump(mode="json").items(), ("", itemgetter(0)), value)])


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
    print_result(output_format, found, _exposure_tables(found))


def _exposure_tables(found: Exposure) -> list[RenderableType]:
    def best(one: OrganizationExposure, name: str) -> str:
        return "" if one.best is None else shown(getattr(one.best, name), ".1f")

    def interval(one: OrganizationExposure) -> str:
        return "" if one.best is None else f"{best(one, 'adjusted_lower')} to {best(one, 'adjusted_upper')}"

    shares = ("Candidate in", lambda one: f"{one.candidate_share:.0%}")
    tables = [
        table_of(found.models, "Model=model", shares, *_COUNTED, "Compared=compared", "Intended=intended:.1f",
                 figures=["Candidate in"]),
        table_of(found.organizations, "Organization=organization", "Models=models", *_COUNTED,
                 ("Best", lambda one: one.best and one.best.model), ("Score", lambda one: best(one, "score")),
                 ("Adjusted", lambda one: best(one, "adjusted_score")), ("95 %", interval),
                 figures=["Score", "Adjusted", "95 %"]),
        table_of(found.tags, "Tag=tag", *_COUNTED),
        table_of(found.days, "Day=day", *_COUNTED),
    ]  # fmt: skip
    alarms = [f"! {alarm.model}: {alarm.code}: {alarm.detail}" for alarm in found.alarms]
    return [*(table for table in tables if table.row_count), *alarms]
