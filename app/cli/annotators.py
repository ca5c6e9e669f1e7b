"""The command `stable-arena annotators`: list annotators, see the evidence, decide."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Annotated, Literal

import typer
from rich.console import RenderableType
from rich.table import Table

from app.annotators import erasure, service
from app.annotators.schemas import Action, Annotator
from app.annotators.service import find_annotator, list_annotators
from app.auth.keys import COMMAND_LINE
from app.cli.options import ALL, PrintedOption, ReasonOption, check_reason
from app.cli.outputs import print_result, write_output
from app.cli.session import changing, reading
from app.cli.tables import make_table, number
from app.leaderboard.row_files import rows_csv
from app.rating.errors import counted
from app.rating.settings import Standing
from app.review.evidence.case import make_case
from app.review.evidence.schemas import Case, ModelFigures, SurprisingVote
from app.review.schemas import Reason
from app.review.service import list_reasons

_MOST_MODELS = 10

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
        {**one.public().model_dump(mode="json"), "strength": reason.strength, "reasons": reason.words}
        for one, reason in listed
    ]
    if output_format == "csv":
        write_output(rows_csv([{**row, "reasons": " ".join(row["reasons"])} for row in rows]), None)
    else:
        table = _table([one.public() for one, _ in listed], [reason for _, reason in listed])
        print_result(output_format, {"annotators": rows}, table)


@annotators.command()
def show(annotator: Key, output_format: PrintedOption = "table") -> None:
    """Show the evidence for and against an annotator, beside the newest leaderboard."""
    with reading() as conn:
        found = find_annotator(conn, annotator)
        case = make_case(conn, found)
    habits = [_habits(found)] if found.adjusted_ability is not None else []
    tables = [_table([found.public()]), *habits, *(_case(case) if case else [])]
    print_result(output_format, {**found.public().model_dump(mode="json"), "evidence": case}, *tables)


@annotators.command()
def decide(
    annotator: Key,
    action: Annotated[Action, typer.Argument(help="withdraw: the rule decides on the annotator again.")],
    reason: ReasonOption,
) -> None:
    """Decide on an annotator; the next refit takes the decision into account."""
    reason = check_reason(reason)
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


def _habits(one: Annotator) -> RenderableType:
    """Return the adjusted ability, the readiness to tie and the lean, with 95 % intervals."""
    shares = one.tie_readiness, one.tie_readiness_lower, one.tie_readiness_upper
    points = one.side_lean, one.side_lean_lower, one.side_lean_upper
    adjusted = one.adjusted_ability, one.adjusted_lower, one.adjusted_upper
    rows = [
        ("Adjusted ability", *(number(x, 2) for x in adjusted)),
        ("Ties between equals", *(_percent(share) for share in shares)),
        ("Lean to the left, Elo points", *(number(x, 0) for x in points)),
    ]
    columns = ("", "Estimate", "From", "To")
    return make_table(*columns, rows=rows, words=[""], title="What the votes alone say")


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
    accuracy, median = _percent(agreement.accuracy), pace.median_seconds
    rows = [
        (
            "Follows the leaderboard, as a typical annotator",
            accuracy,
            _percent(typical.accuracy),
            _z(typical.accuracy_z),
        ),
        ("Follows the leaderboard, given the ability", accuracy, _percent(own.accuracy), _z(own.accuracy_z)),
        ("Left model wins", _percent(sides.left), _percent(sides.expected_left), _p(sides.p_value)),
        ("Ties", _percent(ties.share), _percent(ties.expected), _z(ties.z)),
        ("Within 5 seconds of the vote before", _percent(pace.hasty), _percent(pace.typical_hasty), _z(pace.hasty_z)),
        ("Between two votes, median", "–" if median is None else f"{median:,.0f} s", "", ""),
    ]
    columns = ("", "Observed", "Expected", "z or p")
    return make_table(*columns, rows=rows, words=[""], title=f"Beside snapshot {case.snapshot}")


def _surprising(votes: list[SurprisingVote]) -> Table:
    words = ("Model A", "Model B", "Verdict")
    rows = [
        (
            vote.model_a, vote.model_b, vote.winner,
            _percent(vote.chance.typical_probability), _percent(vote.chance.probability),
        )
        for vote in votes
    ]  # fmt: skip
    return make_table(*words, "Typical chance", "Own chance", rows=rows, words=words, title="Most surprising votes")


def _models(models: list[ModelFigures]) -> Table:
    rows = [
        (row.model, f"{row.decided:,}", f"{row.wins:,}", f"{row.expected_wins:,.1f}", _z(row.residual))
        for row in models
    ]
    columns = ("Model", "Decided", "Wins", "Expected", "z")
    return make_table(*columns, rows=rows, words=["Model"], title="Furthest from what is expected")


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"


def _z(value: float | None) -> str:
    return "–" if value is None else f"{value:+.1f}"


def _p(value: float | None) -> str:
    return "–" if value is None else f"p = {value:.2g}"
