"""What stands out in an annotator's votes, in sentences."""

from collections.abc import Iterator, Sequence
from datetime import UTC

from app.annotators.schemas import VotesSummary
from app.rating.errors import counted
from app.review.evidence.pace import UNUSUAL
from app.review.evidence.reasons import format_ratio
from app.review.evidence.schemas import Agreement, Drift, ModelFigures, Pace, Sides, Ties
from app.wording import change, points

_UNLIKELY = 0.001  # probability
_CLEAR = 2.0  # log10 of the likelihood ratio of a change of ability: a hundred to one
_MODELS_NAMED = 3


def describe_figures(
    agreement: Agreement, sides: Sides, ties: Ties, pace: Pace, models: Sequence[ModelFigures]
) -> Iterator[str]:
    """Describe the figures that chance would hardly bring."""
    typical = agreement.expected[1]
    z = typical.accuracy_z or 0.0
    if agreement.accuracy is not None and typical.accuracy is not None and abs(z) >= UNUSUAL:
        yield (
            f"{_percent(agreement.accuracy)} of {counted(agreement.votes, 'decided vote')} follow the leaderboard; "
            f"{_percent(typical.accuracy)} is expected of a typical annotator (z = {change(z, 1)})."
        )
    if sides.left is not None and sides.expected_left is not None and (sides.p_value or 0.0) <= _UNLIKELY:
        expected = _percent(sides.expected_left)
        yield f"The left model won {_percent(sides.left)} of the decided votes; {expected} is expected."
    if ties.share is not None and ties.expected is not None and abs(ties.z or 0.0) >= UNUSUAL:
        yield f"{_percent(ties.share)} of the votes are ties; {_percent(ties.expected)} among all annotators."
    if pace.hurried and pace.longest_burst is not None and pace.hasty is not None:
        burst = pace.longest_burst
        others = "" if pace.typical_hasty is None else f" ({_percent(pace.typical_hasty)} of a typical annotator's)"
        yield (
            f"{_percent(pace.hasty)} of the votes came within 5 seconds of the one before{others}; the longest such "
            f"run has {burst.votes:,} votes in {burst.seconds:,.0f} seconds."
        )
    for one in models[:_MODELS_NAMED]:
        if abs(one.residual or 0.0) >= UNUSUAL:
            yield (
                f"{one.model} won {one.wins:,} of {counted(one.decided, 'decided vote')}; {one.expected_wins:,.1f} is "
                f"expected ({change(one.residual or 0.0, 1)} standard deviations)."
            )


def describe_drift(drift: Drift | None) -> Iterator[str]:
    """Describe a change that is clear. Slopes are of the votes alone, abilities are not."""
    if drift is None or drift.log10_ratio < _CLEAR:
        return
    when = f"After {counted(drift.votes_before, 'decided vote')} of {drift.votes:,}"
    if drift.changed_at is not None:
        when += f", on {drift.changed_at.astimezone(UTC).date()}"
    before, after = (points(slope, 1) for slope in (drift.before, drift.after))
    yield (
        f"{when} the slope seems to change from {before} to {after}: that makes the votes "
        f"{format_ratio(drift.log10_ratio)} likelier than one slope does."
    )


def describe_retracted(votes: VotesSummary, *, has_history: bool) -> Iterator[str]:
    """Describe an annotator whose votes are all retracted."""
    if votes.first_received_at is None or votes.last_received_at is None:
        return
    first, last = votes.first_received_at.astimezone(UTC).date(), votes.last_received_at.astimezone(UTC).date()
    when = f"on {first}" if first == last else f"from {first} to {last}"
    what = f"{counted(votes.votes, 'vote')} on {counted(votes.models, 'model')}, received {when}"
    yield f"All votes ({what}) are retracted: none is left to compare with the leaderboard."
    if not has_history:
        yield "No snapshot has figures of the annotator: old snapshots drop them (settings, retention)."


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
