import json
from typing import Annotated, Literal

import typer
from rich.table import Table
from rich.text import Text

from app.annotators import pseudonymise as pseudonyms
from app.annotators.decisions import service as decisions
from app.annotators.decisions.service import Action
from app.annotators.service import Annotator, find_annotator, list_annotators
from app.cli.boards import watched_console
from app.cli.cases import case_tables
from app.cli.outputs import write_output
from app.cli.reasons import check_reason
from app.cli.session import open_session
from app.cli.tables import render
from app.leaderboard.row_files import rows_csv
from app.rating.loop.results import Standing
from app.review.evidence.case import make_case

_ALL = 2**31 - 1

annotators = typer.Typer(invoke_without_command=True, add_completion=False)


@annotators.callback()
def list_all(
    context: typer.Context,
    standing: Annotated[Standing | None, typer.Option(help="Only those of this standing.")] = None,
    output_format: Annotated[
        Literal["table", "json", "csv"], typer.Option("--format", help="How to print them.")
    ] = "table",
) -> None:
    """List annotators, see the evidence, and decide on them.

    Without a command: the annotators with their figures in the newest snapshot, the lowest ability first.
    """
    if context.invoked_subcommand is not None:
        return
    with open_session() as session, session.database.read() as conn:
        found = [one.public() for one in list_annotators(conn, limit=_ALL, standing=standing)]
    rows = [one.model_dump(mode="json") for one in found]
    if output_format == "json":
        content = (json.dumps({"annotators": rows}, indent=2, ensure_ascii=False) + "\n").encode()
    elif output_format == "csv":
        content = rows_csv(rows)
    else:
        content = render([_table(found)], console=watched_console()).encode()
    write_output(content, None)


@annotators.command()
def show(
    annotator: Annotated[str, typer.Argument(help="The annotator's id or key.")],
    output_format: Annotated[Literal["table", "json"], typer.Option("--format", help="How to print it.")] = "table",
) -> None:
    """Show the evidence for and against an annotator, beside the newest board."""
    with open_session() as session, session.database.read() as conn:
        found = find_annotator(conn, annotator)
        case = make_case(conn, found)
    if output_format == "json":
        whole = {**found.public().model_dump(mode="json"), "evidence": case and case.model_dump(mode="json")}
        content = (json.dumps(whole, indent=2, ensure_ascii=False) + "\n").encode()
    else:
        parts = [_table([found.public()]), *(case_tables(case) if case else [])]
        content = render(parts, console=watched_console()).encode()
    write_output(content, None)


@annotators.command()
def decide(
    annotator: Annotated[str, typer.Argument(help="The annotator's id or key.")],
    action: Annotated[Action, typer.Argument(help="withdraw gives the annotator back to the rule.")],
    reason: Annotated[str, typer.Option(help="Why; kept with the decision for ever.")],
) -> None:
    """Decide on an annotator; it shapes the leaderboard from the next refit on."""
    reason = check_reason(reason)
    with open_session() as session, session.database.begin() as conn:
        found, taken = decisions.decide(conn, annotator, action, reason=reason, decided_by="command line")
    typer.echo(f"{found.annotator}: {taken.action} is on record; the standing is now {found.standing}.")


@annotators.command()
def pseudonymise() -> None:
    """Put keyed pseudonyms in the place of all raw keys on record, once, after STABLE_ARENA_PSEUDONYM_KEY was set.

    Stop the service first: it must not take votes under raw keys meanwhile. Stopped half-way nothing has happened.
    """
    with open_session() as session, session.database.begin() as conn:
        rewritten = pseudonyms.pseudonymise(conn, done_by="command line")
    typer.echo(f"{rewritten:,} raw keys were replaced by pseudonyms.")


def _table(found: list[Annotator]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("Annotator", "Ability", "SE", "P(low)", "Votes", "Standing", "Rule says", "Override"):
        left = column in ("Annotator", "Standing", "Rule says", "Override")
        table.add_column(column, justify="left" if left else "right", overflow="fold")
    for one in found:
        inside = one.ability is not None
        ability, se = (one.ability, one.se) if inside else (one.shadow_ability, one.shadow_se)
        table.add_row(
            Text(one.annotator),
            _figure(ability) if inside else f"({_figure(ability)})",  # a shadow: it has no part in the scores
            _figure(se), _figure(one.probability_low),
            f"{one.votes:,}", one.standing, one.rule_standing, one.override or "",
        )  # fmt: skip
    return table


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
