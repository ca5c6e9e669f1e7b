"""The command `stable-arena annotators`: list annotators, see the evidence, decide."""

from collections.abc import Sequence
from itertools import zip_longest
from typing import Annotated, Literal

import typer
from rich.table import Table

from app.annotators import service
from app.annotators.erasure import service as erasure
from app.annotators.schemas import Action, Annotator
from app.annotators.service import find_annotator, list_annotators
from app.cli.cases import case_tables, habits_table
from app.cli.options import PrintedOption, check_reason
from app.cli.outputs import write_json, write_output, write_tables
from app.cli.session import changing, reading
from app.cli.tables import make_table, number
from app.leaderboard.row_files import rows_csv
from app.rating.errors import counted
from app.rating.settings import Standing
from app.review.evidence.case import make_case
from app.review.schemas import Reason
from app.review.service import list_reasons

_ALL = 2**31 - 1

Key = Annotated[str, typer.Argument(help="The annotator's id or key.")]

annotators = typer.Typer(invoke_without_command=True, add_completion=False)


@annotators.callback()
def list_all(
    context: typer.Context,
    standing: Annotated[Standing | None, typer.Option(help="Only those of this standing.")] = None,
    output_format: Annotated[
        Literal["table", "json", "csv"], typer.Option("--format", help="How to print the result.")
    ] = "table",
) -> None:
    """List annotators, see the evidence, and decide on them.

    Without a command: the annotators with their figures in the newest snapshot and the reasons for flags, the
    strongest reason first, then the lowest ability.
    """
    if context.invoked_subcommand is not None:
        return
    with reading() as conn:
        found = list_annotators(conn, limit=_ALL, standing=standing)
        listed = list(zip(found, list_reasons(conn, found), strict=True))
    listed.sort(key=lambda one: -one[1].strength)
    rows = [
        {**one.public().model_dump(mode="json"), "strength": reason.strength, "reasons": reason.words}
        for one, reason in listed
    ]
    if output_format == "json":
        write_json({"annotators": rows})
    elif output_format == "csv":
        write_output(rows_csv([{**row, "reasons": " ".join(row["reasons"])} for row in rows]), None)
    else:
        write_tables([_table([one.public() for one, _ in listed], [reason for _, reason in listed])])


@annotators.command()
def show(annotator: Key, output_format: PrintedOption = "table") -> None:
    """Show the evidence for and against an annotator, beside the newest leaderboard."""
    with reading() as conn:
        found = find_annotator(conn, annotator)
        case = make_case(conn, found)
    if output_format == "json":
        write_json({**found.public().model_dump(mode="json"), "evidence": case and case.model_dump(mode="json")})
    else:
        habits = [habits_table(found)] if found.adjusted_ability is not None else []
        write_tables([_table([found.public()]), *habits, *(case_tables(case) if case else [])])


@annotators.command()
def decide(
    annotator: Key,
    action: Annotated[Action, typer.Argument(help="withdraw: the rule decides on the annotator again.")],
    reason: Annotated[str, typer.Option(help="Why; recorded with the decision for good.")],
) -> None:
    """Decide on an annotator; the next refit takes the decision into account."""
    reason = check_reason(reason)
    with changing() as conn:
        found, taken = service.decide(conn, annotator, action, reason=reason, decided_by="command line")
    typer.echo(f"{found.annotator}: {taken.action} is recorded; the standing is now {found.standing}.")


@annotators.command()
def pseudonymise() -> None:
    """Replace all recorded raw keys by keyed pseudonyms, once, after STABLE_ARENA_PSEUDONYM_KEY was set.

    Stop the service first, because it must not take votes under raw keys meanwhile. The command changes all keys or,
    if it is interrupted, none.
    """
    with changing() as conn:
        rewritten = erasure.pseudonymise(conn, done_by="command line")
    typer.echo(f"Replaced {counted(rewritten, 'raw key')} by pseudonyms.")


def _table(found: list[Annotator], reasons: Sequence[Reason] = ()) -> Table:
    columns = ["Annotator", "Ability", "SE", "P(low)", "Votes", "Standing", "Rule says", "Override"]
    table = make_table(*columns, *(["Why"] if reasons else []), words=["Annotator", *columns[5:], "Why"])
    for one, reason in zip_longest(found, reasons):
        inside = one.ability is not None
        ability, se = (one.ability, one.se) if inside else (one.shadow_ability, one.shadow_se)
        table.add_row(
            one.annotator,
            number(ability, 3) if inside else f"({number(ability, 3)})",  # a shadow ability: not part of the fit
            number(se, 3), number(one.probability_low, 3),
            f"{one.votes:,}", one.standing, one.rule_standing, one.override or "",
            *([" ".join(reason.words)] if reason else []),
        )  # fmt: skip
    return table
