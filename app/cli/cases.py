"""The evidence on one annotator as tables for a terminal."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table

from app.annotators.schemas import Annotator
from app.cli.tables import make_table, number
from app.review.evidence.schemas import Case, ModelFigures, SurprisingVote

_MOST_MODELS = 10


def habits_table(one: Annotator) -> RenderableType:
    """Return the adjusted ability, the readiness to tie and the lean, with 95 % intervals."""
    table = make_table("", "Estimate", "From", "To", words=[""], title="Ability without habits, and the habits")
    table.add_row(
        "Adjusted ability", *(number(x, 2) for x in (one.adjusted_ability, one.adjusted_lower, one.adjusted_upper))
    )
    shares = one.tie_readiness, one.tie_readiness_lower, one.tie_readiness_upper
    table.add_row("Ties between equals", *(_percent(share) for share in shares))
    points = one.side_lean, one.side_lean_lower, one.side_lean_upper
    table.add_row("Lean to the left, Elo points", *(number(x, 0) for x in points))
    return table


def case_tables(case: Case) -> Iterator[RenderableType]:
    """Return what stands out, then the figures: observed beside expected."""
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
    table = make_table("", "Observed", "Expected", "z or p", words=[""], title=f"Beside snapshot {case.snapshot}")
    table.add_row(
        "Follows the leaderboard, as a typical annotator",
        *_row(agreement.accuracy, typical.accuracy),
        _z(typical.accuracy_z),
    )
    table.add_row(
        "Follows the leaderboard, given the ability", *_row(agreement.accuracy, own.accuracy), _z(own.accuracy_z)
    )
    table.add_row("Left model wins", *_row(sides.left, sides.expected_left), _p(sides.p_value))
    table.add_row("Ties", *_row(ties.share, ties.expected), _z(ties.z))
    table.add_row(
        "Within 5 seconds of the vote before", _percent(pace.hasty), _percent(pace.typical_hasty), _z(pace.hasty_z)
    )
    median = "–" if pace.median_seconds is None else f"{pace.median_seconds:,.0f} s"
    table.add_row("Between two votes, median", median, "", "")
    return table


def _surprising(votes: list[SurprisingVote]) -> Table:
    table = make_table(
        "Model A", "Model B", "Verdict", "Typical chance", "Own chance",
        words=["Model A", "Model B", "Verdict"], title="Most surprising votes",
    )  # fmt: skip
    for vote in votes:
        chances = _percent(vote.chance.typical_probability), _percent(vote.chance.probability)
        table.add_row(vote.model_a, vote.model_b, vote.winner, *chances)
    return table


def _models(models: list[ModelFigures]) -> Table:
    table = make_table(
        "Model", "Decided", "Wins", "Expected", "z", words=["Model"], title="Furthest from what is expected"
    )
    for row in models:
        table.add_row(row.model, f"{row.decided:,}", f"{row.wins:,}", f"{row.expected_wins:,.1f}", _z(row.residual))
    return table


def _row(observed: float | None, expected: float | None) -> tuple[str, str]:
    return _percent(observed), _percent(expected)


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"


def _z(value: float | None) -> str:
    return "–" if value is None else f"{value:+.1f}"


def _p(value: float | None) -> str:
    return "–" if value is None else f"p = {value:.2g}"
