"""An annotator's votes compared with what the leaderboard makes likely: agreement, sides, ties, models, drift."""

import math
from datetime import UTC, datetime
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from app.rating.arrays import Floats, sum_by
from app.rating.types.drift import ABILITIES, find_drift
from app.review.evidence.annotator_votes import AnnotatorVotes
from app.review.evidence.expectations import Expected, expect
from app.review.evidence.schemas import Agreement, Comparison, Drift, ModelFigures, Sides, Ties

MOST_MODELS = 200


def find_agreement(votes: AnnotatorVotes) -> Agreement:
    """Compare the decided votes with the leaderboard, under the annotator's ability and under the mean ability."""
    decided = votes.decided
    gap = votes.gap[votes.scored][decided]
    follows = votes.left_won[decided] == (gap > 0)
    both: list[tuple[Literal["own", "typical"], Expected]] = [("own", votes.own), ("typical", votes.typical)]
    return Agreement(
        votes=len(gap),
        accuracy=_mean(follows),
        expected=[_compare(of, expected.left_of_decided[decided], gap, votes) for of, expected in both],
    )


def _compare(of: Literal["own", "typical"], left: Floats, gap: Floats, votes: AnnotatorVotes) -> Comparison:
    won = votes.left_won[votes.decided]
    follow = np.where(gap > 0, left, 1.0 - left)
    follows = won == (gap > 0)
    variance = left * (1.0 - left)
    loss = -np.log(np.where(won, left, 1.0 - left))
    odds = np.log(left / (1.0 - left))
    expected_loss = -(left * np.log(left) + (1.0 - left) * np.log(1.0 - left))
    return Comparison(
        of=of,
        accuracy=_mean(follow),
        accuracy_z=_z(float(follows.sum() - follow.sum()), float(variance.sum())),
        log_loss=_mean(expected_loss),
        observed_log_loss=_mean(loss),
        log_loss_z=_z(float(loss.sum() - expected_loss.sum()), float((variance * odds**2).sum())),
    )


def compare_sides(votes: AnnotatorVotes) -> Sides:
    """Compare the left model's wins with the scores, under the annotator's ability, in the votes that have sides."""
    here = votes.decided & ~votes.ranked[votes.scored]
    left = votes.own.left_of_decided[here]
    won = votes.left_won[here]
    distance = abs(float(won.sum() - left.sum()))
    z = _z(max(distance - 0.5, 0.0), float((left * (1.0 - left)).sum()))  # half a vote of continuity correction
    p_value = None if z is None else math.erfc(z / math.sqrt(2.0))
    return Sides(votes=len(won), left=_mean(won), expected_left=_mean(left), p_value=p_value)


def compare_ties(votes: AnnotatorVotes) -> Ties:
    """Compare the share of ties with that of all annotators on the same models."""
    tie = ~votes.decided
    expected = votes.own.tie
    z = _z(float(tie.sum() - expected.sum()), float((expected * (1.0 - expected)).sum()))
    return Ties(votes=len(tie), share=_mean(tie), expected=_mean(expected), z=z)


def compare_models(votes: AnnotatorVotes, names: dict[int, str]) -> list[ModelFigures]:
    """Count the votes on each model; return at most 200 models, the furthest from the expected wins first."""
    scored = votes.scored
    model_a, model_b = votes.model_a[scored], votes.model_b[scored]
    models, place = np.unique(np.concatenate([model_a, model_b]), return_inverse=True)
    decided = np.tile(votes.decided, 2)
    left = votes.own.left_of_decided
    wins = np.concatenate([votes.left_won, ~votes.left_won & votes.decided])
    chance, spread = np.concatenate([left, 1.0 - left]), np.tile(left * (1.0 - left), 2)

    def total(values: Floats | NDArray[np.bool_]) -> Floats:
        return sum_by(place, values.astype(np.float64), len(models))

    totals = map(total, (np.ones(len(place)), decided, wins, decided * chance, decided * spread))
    rows = [
        ModelFigures(
            model=names[number],
            votes=int(all_votes),
            decided=int(n),
            wins=int(won),
            expected_wins=float(expected),
            residual=_z(float(won - expected), float(variance)),
        )
        for number, all_votes, n, won, expected, variance in zip(models.tolist(), *totals, strict=True)
    ]
    return sorted(rows, key=lambda row: (-abs(row.residual or 0.0), row.model))[:MOST_MODELS]


def measure_drift(votes: AnnotatorVotes) -> Drift | None:
    """Weigh a change of ability against none; None for fewer than two decided votes between models with a score.

    The order is that of `voted`, else `received`, or that of the record where the time of any vote is unknown.
    """
    counted = np.flatnonzero(votes.scored)[votes.decided][::-1]  # the oldest on record first
    times = np.where(np.isnan(votes.voted), votes.received, votes.voted)[counted]
    known = not np.isnan(times).any()
    if known:
        order = np.argsort(times, kind="stable")
        counted, times = counted[order], times[order]
    found = find_drift(_log_likelihood(votes.gap[counted], votes.outcome[counted] == 0, votes.tie_weight))
    if found is None:
        return None
    (before, before_sd), (after, after_sd) = found.before, found.after
    return Drift(
        votes=len(counted),
        log10_ratio=found.log_ratio / math.log(10.0),
        votes_before=found.votes_before,
        changed_at=datetime.fromtimestamp(float(times[found.votes_before]), UTC) if known else None,
        before=before,
        before_sd=before_sd,
        after=after,
        after_sd=after_sd,
    )


def _log_likelihood(gap: Floats, left_won: np.ndarray[tuple[int], np.dtype[np.bool_]], tie_weight: float) -> Floats:
    """Return log P(verdict | ability, no tie), shape (n_votes, n_abilities)."""
    table = np.empty((len(gap), len(ABILITIES)))
    for column, ability in enumerate(ABILITIES.tolist()):
        expected = expect(gap, ability, tie_weight)
        won = np.where(left_won, expected.left, expected.right)
        table[:, column] = np.log(won / (expected.left + expected.right))
    return table


def _z(difference: float, variance: float) -> float | None:
    return difference / math.sqrt(variance) if variance > 0 else None


def _mean(values: Floats | NDArray[np.bool_]) -> float | None:
    return float(np.mean(values)) if len(values) else None
