"""The commands `stable-arena reviews`, `appeals` and `impact`: what waits for a decision, and what one would change."""

from typing import Annotated

import typer
from rich.table import Table

from app.cli.failures import one_line
from app.cli.options import LimitOption, PrintedOption
from app.cli.outputs import print_result
from app.cli.progress import showing_stages
from app.cli.session import open_session, reading
from app.cli.tables import make_table, number
from app.refits.fit.process import FitResources
from app.review.impact.service import Impacts
from app.review.queries import flagged
from app.review.queue import list_reviews, on_the_watch_list
from app.review.schemas import Impact
from app.review.service import list_appeals

_MODELS_SHOWN = 10


def reviews(
    watch: Annotated[
        bool, typer.Option("--watch", help="Those at or below ε without a flag, instead of the open flags.")
    ] = False,
    limit: LimitOption = 50,
    output_format: PrintedOption = "table",
) -> None:
    """List the open flags with their reasons, the strongest first."""
    with reading() as conn:
        choose = on_the_watch_list(conn) if watch else flagged
        found = [one.review for one in list_reviews(conn, limit=limit, choose=choose)]
    rows = [
        (
            one.annotator, number(reason.strength, 1), number(reason.judged.value if reason.judged else None, 3),
            f"{one.votes:,}", reason.not_flagged or " ".join(reason.words),
        )
        for one, reason in ((one, one.evidence) for one in found)
    ]  # fmt: skip
    columns = ("Annotator", "Strength", "Ability", "Votes", "Why")
    print_result(output_format, {"reviews": found}, make_table(*columns, rows=rows, words=["Annotator", "Why"]))


def appeals(
    annotator: Annotated[str | None, typer.Option(help="Only those of this annotator, by id or key.")] = None,
    answered: Annotated[bool, typer.Option("--answered", help="Also those that a decision has followed.")] = False,
    limit: LimitOption = 50,
    output_format: PrintedOption = "table",
) -> None:
    """List the appeals that wait for a decision."""
    with reading() as conn:
        found = list_appeals(conn, limit=limit, only_open=not answered, annotator=annotator)
    rows = [
        (
            f"{one.submitted_at:%Y-%m-%d %H:%M}", one.annotator, one.submitted_by, "yes" if one.open else "no",
            one_line(one.note),
        )
        for one in found
    ]  # fmt: skip
    table = make_table("Submitted", "Annotator", "By", "Open", "Note", rows=rows)
    print_result(output_format, {"appeals": found}, table)


def impact(
    annotator: Annotated[str, typer.Argument(help="The annotator's id or key.")],
    _exact: Annotated[
        bool, typer.Option("--exact", help="Without effect: every answer is a refit.", hidden=True)
    ] = False,
    output_format: PrintedOption = "table",
) -> None:
    """Show the newest leaderboard without an annotator, or with one who does not count."""
    with showing_stages() as stages, open_session(creates=False) as session:
        stages.stage("Fitting")
        impacts = Impacts(session.database, FitResources.chosen(session.settings))
        try:
            found = impacts.impact(annotator)
        finally:
            impacts.stop()
    print_result(output_format, found, *(f"• {sentence}" for sentence in found.summary), "", _impact(found))


def _impact(found: Impact) -> Table:
    furthest = sorted(found.models, key=lambda one: -abs(one.change or 0.0))
    rows = [
        (
            one.model, number(one.score_before, 1), number(one.score_after, 1), number(one.change, 1),
            f"{one.rank_before or '–'}", f"{one.rank_after or '–'}",
        )
        for one in furthest[:_MODELS_SHOWN]
    ]  # fmt: skip
    title = f"Snapshot {found.snapshot} with {found.annotator} {found.what}"
    return make_table("Model", "Score", "Then", "Change", "Rank", "Then", rows=rows, words=["Model"], title=title)
