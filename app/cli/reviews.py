"""The commands `stable-arena reviews`, `appeals` and `impact`: what waits for a decision, and what one would change."""

from typing import Annotated

import typer
from rich.table import Table

from app.cli.options import LimitOption, PrintedOption
from app.cli.outputs import print_list, print_result
from app.cli.progress import showing_stages
from app.cli.session import open_session, reading
from app.cli.tables import shown, table_of
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
        found = list_reviews(conn, limit=limit, choose=choose)
    ability = ("Ability", lambda one: shown(one.evidence.judged and one.evidence.judged.value, ".3f"))
    why = ("Why", lambda one: one.evidence.not_flagged or " ".join(one.evidence.words[:1]))
    columns = ("Annotator=annotator", "Strength=evidence.strength:.1f", ability, "Votes=votes", why)
    print_list(output_format, "reviews", found, *columns, figures=["Ability"])


def appeals(
    annotator: Annotated[str | None, typer.Option(help="Only those of this annotator, by id or key.")] = None,
    answered: Annotated[bool, typer.Option("--answered", help="Also those that a decision has followed.")] = False,
    limit: LimitOption = 50,
    output_format: PrintedOption = "table",
) -> None:
    """List the appeals that wait for a decision."""
    with reading() as conn:
        found = list_appeals(conn, limit=limit, only_open=not answered, annotator=annotator)
    columns = ("Submitted=submitted_at", "Annotator=annotator", "By=submitted_by", "Open=open", "Note=note")
    print_list(output_format, "appeals", found, *columns)


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
    print_result(output_format, found, [*(f"• {sentence}" for sentence in found.summary), "", _impact(found)])


def _impact(found: Impact) -> Table:
    furthest = sorted(found.models, key=lambda one: -abs(one.change or 0.0))
    title = f"Snapshot {found.snapshot} with {found.annotator} {found.what}"
    scores = ("Score=score_before:.1f", "Then=score_after:.1f", "Change=change:.1f")
    ranks = ("Rank=rank_before:d", "Then=rank_after:d")
    return table_of(furthest[:_MODELS_SHOWN], "Model=model", *scores, *ranks, title=title)
