"""The command `battles exposure`."""

from typing import Annotated

import typer
from rich.console import RenderableType
from rich.text import Text

from app.battles.exposure.schemas import Counts, Exposure
from app.battles.exposure.service import report_exposure
from app.cli.options import PrintedOption, read_time
from app.cli.outputs import write_json, write_tables
from app.cli.session import reading
from app.cli.tables import make_table, number

_COUNTED = ("Offered", "Voted", "Skipped", "Expired")


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
    if output_format == "json":
        write_json(found)
    else:
        write_tables(_tables(found))


def _tables(found: Exposure) -> list[RenderableType]:
    by_model = make_table("Model", "Candidate in", *_COUNTED, "Compared", "Intended", words=["Model"])
    for model in found.models:
        share, compared = f"{model.candidate_share:.0%}", f"{model.compared:,}"
        by_model.add_row(model.model, share, *_figures(model), compared, number(model.intended, 1))
    by_organization = make_table("Organization", "Models", *_COUNTED, "Best", "Score", "Adjusted", "95 %",
                                 words=["Organization", "Best"])  # fmt: skip
    for one in found.organizations:
        best: list[str | Text] = []
        if one.best is not None:
            interval = f"{one.best.adjusted_lower:.1f} to {one.best.adjusted_upper:.1f}"
            best = [one.best.model, number(one.best.score, 1), number(one.best.adjusted_score, 1), interval]
        by_organization.add_row(one.organization, f"{one.models:,}", *_figures(one), *best)
    by_tag = make_table("Tag", *_COUNTED, words=["Tag"])
    for tagged in found.tags:
        by_tag.add_row(tagged.tag, *_figures(tagged))
    by_day = make_table("Day", *_COUNTED, words=["Day"])
    for daily in found.days:
        by_day.add_row(f"{daily.day}", *_figures(daily))
    tables = [table for table in (by_model, by_organization, by_tag, by_day) if table.row_count]
    alarms = [f"! {alarm.model}: {alarm.code}: {alarm.detail}" for alarm in found.alarms]
    return [*tables, *alarms]


def _figures(counts: Counts) -> tuple[str, ...]:
    return tuple(f"{value:,}" for value in (counts.offered, counts.voted, counts.skipped, counts.expired))
