"""The command `stable-arena annotators`: list annotators, see the evidence, decide."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

import typer
from rich.console import RenderableType
from rich.table import Table

from app.annotators import erasure, service
from app.annotators.schemas import Action
from app.annotators.service import find_annotator, list_annotators
from app.auth.keys import COMMAND_LINE
from app.cli.options import ALL, PrintedOption, ReasonOption
from app.cli.outputs import print_result
from app.cli.session import changing, reading
from app.cli.tables import Column, make_table, shown, table_of
from app.rating.errors import counted
from app.rating.settings import Standing
from app.review.evidence.case import make_case
from app.review.evidence.schemas import Case, ModelFigures, SurprisingVote
from app.review.service import list_reasons

_MOST_MODELS = 10

Row = Mapping[str, Any]

Key = Annotated[str, typer.Argument(help="The annotator's id or key.")]

StandingOption = Annotated[Standing | None, typer.Option(help="Only those of this standing.")]
FormatOption = Annotated[Literal["table", "json", "csv"], typer.Option("--format", help="How to print the result.")]

annotators = typer.Typer(invoke_without_command=True, add_completion=False)


@annotators.callback()
def without_command(
    context: typer.Context, standing: StandingOption = None, output_format: FormatOption = "table"
) -> None:
    """List annotators, see the evidence, and decide on them.

    Without a command: the same as `list`.
    """
    if context.invoked_subcommand is None:
        list_all(standing, output_format)


@annotators.command("list")
def list_all(standing: StandingOption = None, output_format: FormatOption = "table") -> None:
    """List annotators with their figures in the newest snapshot and the reasons for flags.

    The strongest reason comes first, then the lowest ability.
    """
    with reading() as conn:
        found = list_annotators(conn, limit=ALL, standing=standing)
        listed = list(zip(found, list_reasons(conn, found), strict=True))
    listed.sort(key=lambda one: -one[1].strength)
    rows = [
        {**one.model_dump(mode="json"), "strength": reason.strength, "reasons": reason.words} for one, reason in listed
    ]
    flat = ({**row, "reasons": " ".join(row["reasons"])} for row in rows)
    why = ("Why", lambda row: " ".join(row["reasons"][:1]))
    print_result(output_format, {"annotators": rows}, [_table(rows, why)], rows=flat)


@annotators.command("show")
def show_evidence(annotator: Key, output_format: PrintedOption = "table") -> None:
    """Show the evidence for and against an annotator, beside the newest leaderboard."""
    with reading() as conn:
        found = find_annotator(conn, annotator)
        case = make_case(conn, found)
    row = found.model_dump(mode="json")
    habits = [_habits(row)] if found.adjusted_ability is not None else []
    print_result(output_format, {**row, "evidence": case}, [_table([row]), *habits, *(_case(case) if case else [])])


@annotators.command()
def decide(
    annotator: Key,
    action: Annotated[Action, typer.Argument(help="withdraw: the rule decides on the annotator again.")],
    reason: ReasonOption,
) -> None:
    """Decide on an annotator; the next refit takes the decision into account."""
    with changing() as conn:
        found, taken = service.decide(conn, annotator, action, reason=reason, decided_by=COMMAND_LINE)
    typer.echo(f"{found.annotator}: {taken.action} is recorded; the standing is now {found.standing}.")


@annotators.command()
def pseudonymise() -> None:
    """Replace all recorded raw keys by keyed pseudonyms, once, after STABLE_ARENA_PSEUDONYM_KEY was set.

    Stop the service first, because it must not take votes under raw keys meanwhile. The command changes all keys or,
    if it is interrupted, none.
    """
    with changing() as conn:
        rewritten = erasure.pseudonymise(conn, done_by=COMMAND_LINE)
    typer.echo(f"Replaced {counted(rewritten, 'raw key')} by pseudonyms.")


def _table(rows: Sequence[Row], *more: Column) -> Table:
    def ability(row: Row) -> str:  # in brackets where the votes do not count
        inside = row["ability"] is not None
        return shown(row["ability"], ".3f") if inside else f"({shown(row['shadow_ability'], '.3f')})"

    def error(row: Row) -> str:
        return shown(row["shadow_se" if row["ability"] is None else "se"], ".3f")

    figures = (("Ability", ability), ("SE", error), "P(low)=probability_low:.3f", "Votes=votes")
    rules = ("Standing=standing", "Rule says=rule_standing", "Override=override")
    return table_of(rows, "Annotator=annotator", *figures, *rules, *more, figures=["Ability", "SE"])


def _habits(row: Row) -> Table:
    """Return the slope of the votes alone, the readiness to tie and the lean, with 95 % intervals."""
    named = (
        ("Slope", "adjusted_ability", "adjusted", ".2f"),
        ("Ties between equals", "tie_readiness", "tie_readiness", "%"),
        ("Lean to the left, Elo points", "side_lean", "side_lean", ".0f"),
    )
    rows = [
        (heading, *(shown(row[name], spec) for name in (estimate, f"{ends}_lower", f"{ends}_upper")))
        for heading, estimate, ends, spec in named
    ]
    return make_table("", "Estimate", "From", "To", rows=rows, words=[""], title="What the votes alone say")


def _case(case: Case) -> Iterator[RenderableType]:
    """Yield what stands out, then the figures: observed beside expected."""
    yield ""
    for sentence in case.summary or ["Nothing stands out."]:
        yield f"• {sentence}"
    yield ""
    yield _figures(case)
    if case.surprising:
        yield ""
        yield _surprising(case.surprising)
    if case.models:
        yield ""
        yield _models(case.models[:_MOST_MODELS])


def _figures(case: Case) -> Table:
    agreement, sides, ties, pace = case.agreement, case.sides, case.ties, case.pace
    own, typical = agreement.expected
    accuracy, median = shown(agreement.accuracy, "%"), pace.median_seconds
    rows = [
        ("Follows the leaderboard, as a typical annotator", accuracy, typical.accuracy, _z(typical.accuracy_z)),
        ("Follows the leaderboard, given the ability", accuracy, own.accuracy, _z(own.accuracy_z)),
        ("Left model wins", shown(sides.left, "%"), sides.expected_left, _p(sides.p_value)),
        ("Ties", shown(ties.share, "%"), ties.expected, _z(ties.z)),
        ("Within 5 seconds of the vote before", shown(pace.hasty, "%"), pace.typical_hasty, _z(pace.hasty_z)),
    ]
    lines = [(what, observed, shown(expected, "%"), z) for what, observed, expected, z in rows]
    lines.append(("Between two votes, median", "–" if median is None else f"{median:,.0f} s", "", ""))
    columns = ("", "Observed", "Expected", "z or p")
    return make_table(*columns, rows=lines, words=[""], title=f"Beside snapshot {case.snapshot}")


def _surprising(votes: list[SurprisingVote]) -> Table:
    words = ("Model A=model_a", "Model B=model_b", "Verdict=winner")
    chances = ("Typical chance=chance.typical_probability:%", "Own chance=chance.probability:%")
    return table_of(votes, *words, *chances, title="Most surprising votes")


def _models(models: list[ModelFigures]) -> Table:
    expected = ("Expected", lambda row: f"{row.expected_wins:,.1f}")
    columns = ("Model=model", "Decided=decided", "Wins=wins", expected, "z=residual:+.1f")
    return table_of(models, *columns, title="Furthest from what is expected", figures=["Expected"])


def _z(value: float | None) -> str:
    return shown(value, "+.1f")


def _p(value: float | None) -> str:
    return "–" if value is None else f"p = {value:.2g}"
