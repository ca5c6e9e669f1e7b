"""How one annotator's votes compare with what the board expects of them: agreement, sides, ties, models."""

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field
from scipy.special import ndtr

from app.rating.data.sums import sum_by
from app.review.evidence.own_votes import OwnVotes
from app.review.evidence.published import Expected

Floats = NDArray[np.float64]

MOST_MODELS = 200


class Comparison(BaseModel):
    """What was observed against what is expected of somebody."""

    model_config = ConfigDict(frozen=True)

    of: Literal["own", "typical"] = Field(description="Of this annotator's ability, or of an ability of 1.")
    accuracy: float | None = Field(description="Share of decided votes expected to follow the board.")
    accuracy_z: float | None = Field(description="Observed less expected, in standard deviations of chance.")
    log_loss: float | None = Field(description="Expected −log of the probability of each decided vote, on average.")
    observed_log_loss: float | None = Field(description="The same as observed, under this ability.")
    log_loss_z: float | None = Field(description="Observed less expected, in standard deviations of chance.")


class Agreement(BaseModel):
    """How the decided votes (no ties) between models with a score follow the board."""

    model_config = ConfigDict(frozen=True)

    votes: int = Field(description="Decided votes between models with a score.")
    accuracy: float | None = Field(description="Share of them that prefer the model with the higher score.")
    expected: list[Comparison]


class Sides(BaseModel):
    """Whether one side of the page is preferred, whatever stands there."""

    model_config = ConfigDict(frozen=True)

    votes: int = Field(description="Decided votes between models with a score.")
    left: float | None = Field(description="Share of them that the left model won.")
    expected_left: float | None = Field(description="What the scores of the models shown there expect.")
    p_value: float | None = Field(description="Chance of a share as far from the expected one, normal approximation.")


class Ties(BaseModel):
    """How often the annotator calls a tie."""

    model_config = ConfigDict(frozen=True)

    votes: int = Field(description="Votes between models with a score, ties included.")
    share: float | None
    expected: float | None = Field(description="The crowd's, on the same models.")
    z: float | None = Field(description="Observed less expected, in standard deviations of chance.")


class ModelFigures(BaseModel):
    """The annotator's decided votes on one model."""

    model_config = ConfigDict(frozen=True)

    model: str
    votes: int = Field(description="Votes on the model, ties included.")
    decided: int
    wins: int = Field(description="Decided votes for it.")
    expected_wins: float = Field(description="What the scores and the annotator's ability expect.")
    residual: float | None = Field(
        description="Wins less those expected, in standard deviations of chance; beyond ±3 is unusual."
    )


def agreement(votes: OwnVotes) -> Agreement:
    """Compare the decided votes with the board, under the annotator's ability and under the typical one."""
    decided = votes.decided
    gap = votes.gap[votes.scored][decided]
    follows = votes.left_won[decided] == (gap > 0)
    both: list[tuple[Literal["own", "typical"], Expected]] = [("own", votes.own), ("typical", votes.typical)]
    return Agreement(
        votes=len(gap),
        accuracy=_mean(follows),
        expected=[_compare(of, expected.left_of_decided[decided], gap, votes) for of, expected in both],
    )


def _compare(of: Literal["own", "typical"], left: Floats, gap: Floats, votes: OwnVotes) -> Comparison:
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


def sides(votes: OwnVotes) -> Sides:
    """Compare the left model's wins with what the scores expect, given the annotator's ability."""
    left = votes.own.left_of_decided[votes.decided]
    won = votes.left_won[votes.decided]
    distance = abs(float(won.sum() - left.sum()))
    z = _z(max(distance - 0.5, 0.0), float((left * (1.0 - left)).sum()))  # half a vote for continuity
    p_value = None if z is None else 2.0 * float(ndtr(-z))
    return Sides(votes=len(won), left=_mean(won), expected_left=_mean(left), p_value=p_value)


def ties(votes: OwnVotes) -> Ties:
    """Compare the ties with those of the crowd on the same models."""
    tie = ~votes.decided
    expected = votes.own.tie
    z = _z(float(tie.sum() - expected.sum()), float((expected * (1.0 - expected)).sum()))
    return Ties(votes=len(tie), share=_mean(tie), expected=_mean(expected), z=z)


def by_model(votes: OwnVotes, names: dict[int, str]) -> list[ModelFigures]:
    """Count the votes on each model, the furthest from what is expected first; the first 200 of them."""
    scored = votes.scored
    model_a, model_b = votes.model_a[scored], votes.model_b[scored]
    models, place = np.unique(np.concatenate([model_a, model_b]), return_inverse=True)
    decided = np.tile(votes.decided, 2)
    left = votes.own.left_of_decided
    wins = np.concatenate([votes.left_won, ~votes.left_won & votes.decided])
    chance, spread = np.concatenate([left, 1.0 - left]), np.tile(left * (1.0 - left), 2)

    def total(values: Floats | NDArray[np.bool_]) -> Floats:
        return sum_by(place, values.astype(np.float64), len(models))

    counts = zip(
        models.tolist(), total(np.ones(len(place))), total(decided), total(wins), total(decided * chance),
        total(decided * spread), strict=True,
    )  # fmt: skip
    rows = [
        ModelFigures(
            model=names[number],
            votes=int(all_votes),
            decided=int(n),
            wins=int(won),
            expected_wins=float(expected),
            residual=_z(float(won - expected), float(variance)),
        )
        for number, all_votes, n, won, expected, variance in counts
    ]
    return sorted(rows, key=lambda row: (-abs(row.residual or 0.0), row.model))[:MOST_MODELS]


def _z(difference: float, variance: float) -> float | None:
    return difference / math.sqrt(variance) if variance > 0 else None


def _mean(values: Floats | NDArray[np.bool_]) -> float | None:
    return float(np.mean(values)) if len(values) else None
