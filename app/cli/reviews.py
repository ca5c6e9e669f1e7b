"""The commands `stable-arena reviews`, `appeals` and `impact`: what waits for a decision, and what one would change."""

from typing import Annotated

import typer
from rich.table import Table

from app.cli.options import PrintedOption
from app.cli.outputs import write_json, write_tables
from app.cli.progress import showing_stages
from app.cli.session import open_session, reading
from app.cli.tables import make_table, number
from app.cli.texts import one_line
from app.refits.fit.process import FitResources
from app.review.impact.service import Impacts
from app.review.schemas import Appeal, Impact, Review
from app.review.service import list_appeals, list_reviews

_MODELS_SHOWN = 10

LimitOption = Annotated[int, typer.Option(min=1, max=1_000_000, help="At most so many.")]


def reviews(limit: LimitOption = 50, output_format: PrintedOption = "table") -> None:
    """List the open flags with their reasons, the strongest first."""
    with reading() as conn:
        found = [review for _, review in list_reviews(conn, limit=limit)]
    if output_format == "json":
        write_json({"reviews": [one.model_dump(mode="json") for one in found]})
    else:
        write_tables([_reviews(found)])


def appeals(
    annotator: Annotated[str | None, typer.Option(help="Only those of this annotator, by id or key.")] = None,
    answered: Annotated[bool, typer.Option("--answered", help="Also those that a decision has followed.")] = False,
    limit: LimitOption = 50,
    output_format: PrintedOption = "table",
) -> None:
    """List the appeals that wait for a decision, the longest waiting first."""
    with reading() as conn:
        found = list_appeals(conn, limit=limit, only_open=not answered, annotator=annotator)
    if output_format == "json":
        write_json({"appeals": [one.model_dump(mode="json") for one in found]})
    else:
        write_tables([_appeals(found)])


def impact(
    annotator: Annotated[str, typer.Argument(help="The annotator's id or key.")],
    exact: Annotated[bool, typer.Option("--exact", help="Refit, instead of one Newton step.")] = False,
    output_format: PrintedOption = "table",
) -> None:
    """Show the newest leaderboard without an annotator or, if the annotator does not count, with them."""
    with showing_stages() as stages, open_session(creates=False) as session:
        stages.stage("Fitting")
        worker, scheduler = session.settings.worker, session.settings.fit.scheduler
        impacts = Impacts(session.database, FitResources(worker.fit_seconds, worker.fit_memory_bytes, scheduler))
        try:
            found = impacts.impact(annotator, exact=exact)
        finally:
            impacts.stop()
    if output_format == "json":
        write_json(found)
    else:
        write_tables([*(f"• {sentence}" for sentence in found.summary), "", _impact(found)])


def _reviews(found: list[Review]) -> Table:
    table = make_table("Annotator", "Strength", "Ability", "Votes", "Why", words=["Annotator", "Why"])
    for one in found:
        why = " ".join(one.evidence.words)
        table.add_row(one.annotator, number(one.evidence.strength, 1), number(one.ability, 3), f"{one.votes:,}", why)
    return table


def _appeals(found: list[Appeal]) -> Table:
    table = make_table("Submitted", "Annotator", "By", "Open", "Note")
    for one in found:
        when = f"{one.submitted_at:%Y-%m-%d %H:%M}"
        table.add_row(when, one.annotator, one.submitted_by, "yes" if one.open else "no", one_line(one.note))
    return table


def _impact(found: Impact) -> Table:
    title = f"Snapshot {found.snapshot} with {found.annotator} {found.what}"
    table = make_table("Model", "Score", "Then", "Change", "Rank", "Then", words=["Model"], title=title)
    furthest = sorted(found.models, key=lambda one: -abs(one.change or 0.0))
    for one in furthest[:_MODELS_SHOWN]:
        table.add_row(
            one.model, number(one.score_before, 1), number(one.score_after, 1), number(one.change, 1),
            f"{one.rank_before or '–'}", f"{one.rank_after or '–'}",
        )  # fmt: skip
    return table
