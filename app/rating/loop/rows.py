"""A rating's arrays as plain rows, ready for JSON, CSV or a table: what every printed leaderboard is made of."""

import math
from typing import Any, TypedDict

import numpy as np

from app.rating.inference.rating import Rating
from app.rating.loop.habits import habit_columns, tie_readiness


class ModelRow(TypedDict):
    """One model; scores in Elo points, null where the data give none. The key order is the column order."""

    model: str
    score: float | None
    se: float | None
    lower: float | None
    upper: float | None
    rank: int
    best_rank: int
    worst_rank: int
    rank_set_best: int | None
    rank_set_worst: int | None
    class_rank: int | None
    votes: int | float
    wins: int | float
    ties: int | float
    losses: int | float
    component: int
    identified: bool


class AnnotatorRow(TypedDict):
    """One annotator; ability 1 is the typical one's, null outside the fit. reason: of a flag, the test or "ability".

    The figures below it are those that the service has of annotators (`GET /annotators`), null where there are none.
    """

    annotator: str
    ability: float | None
    se: float | None
    votes: int | float
    standing: str
    reason: str | None
    probability_low: float | None
    adjusted_ability: float | None
    tie_readiness: float | None
    side_lean: float | None


def model_rows(rating: Rating, names: list[str]) -> list[ModelRow]:
    """Return the models with counted votes, component by component, best first."""
    board = rating.models
    rows = [
        ModelRow(
            model=names[i],
            score=finite(board.score[i]),
            se=finite(board.se[i]),
            lower=finite(board.lower[i]),
            upper=finite(board.upper[i]),
            rank=int(board.rank[i]),
            best_rank=int(board.best_rank[i]),
            worst_rank=int(board.worst_rank[i]),
            rank_set_best=int(board.rank_set_best[i]) or None,
            rank_set_worst=int(board.rank_set_worst[i]) or None,
            class_rank=int(board.class_rank[i]) or None,
            votes=count(board.votes[i]),
            wins=count(board.wins[i]),
            ties=count(board.ties[i]),
            losses=count(board.losses[i]),
            component=int(board.component[i]),
            identified=bool(board.identified[i]),
        )
        for i in np.flatnonzero(board.votes > 0)
    ]
    return sorted(rows, key=lambda row: (row["component"], row["rank"], row["model"]))


def annotator_rows(rating: Rating, names: list[str]) -> list[AnnotatorRow]:
    """Return every annotator, the most able first; those without an ability after them, pending ones last."""
    crowd = rating.annotators
    habits = habit_columns(rating.evidence, len(names))
    rows = [
        AnnotatorRow(
            annotator=name,
            ability=finite(crowd.ability[i]),
            se=finite(crowd.se[i]),
            votes=count(crowd.votes[i]),
            standing=str(crowd.standing[i]),
            reason=str(crowd.rule[i]) or None,
            probability_low=finite(crowd.probability_low[i]),
            adjusted_ability=finite(habits["adjusted_ability"][i]),
            tie_readiness=finite(tie_readiness(habits["tie_log"][i])),
            side_lean=finite(habits["side_lean"][i]),
        )
        for i, name in enumerate(names)
    ]
    return sorted(rows, key=_most_able_first)


def finite(value: float) -> float | None:
    """Return the number, None where it is infinite or NaN: JSON has neither."""
    return float(value) if math.isfinite(value) else None


def count(value: float) -> int | float:
    """Return a number of votes as the whole number it is, or as it is where votes were weighted."""
    return int(value) if float(value).is_integer() else float(value)


def _most_able_first(row: AnnotatorRow) -> tuple[Any, ...]:
    ability = row["ability"]
    return (row["standing"] == "pending", ability is None, -(ability or 0.0), row["annotator"])
