"""A rating's arrays as plain rows, ready for JSON, CSV or a table: what every printed leaderboard is made of."""

from typing import Any, TypedDict, cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from app.rating.arrays import Floats, finite
from app.rating.types.evidence import Evidence
from app.rating.units import ELO_PER_NATURAL, papers_gauge
from app.rating.verdict.rating import Rating

QUANTILE = float(ndtri(0.975))


class ModelRow(TypedDict):
    """One model; scores in Elo points, null where the data give none, and with it the ranks.

    The key order is the column order.
    """

    model: str
    score: float | None
    se: float | None
    lower: float | None
    upper: float | None
    rank: int | None
    best_rank: int | None
    worst_rank: int | None
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
    """One annotator; ability 1 is the mean honest one, null outside the fit. reason: of a flag, the test or "ability".

    paper_ability: of abilities that sum to 1, the am-ELO paper's gauge; null with a prior. probability_low: P(a ≤ ε).
    adjusted: by the decided votes alone, not drawn to the crowd's law. tie_readiness: share of ties between equals.
    side_lean: Elo points for the left model. Each has the ends of its 95 % interval.
    """

    annotator: str
    ability: float | None
    paper_ability: float | None
    se: float | None
    probability_low: float | None
    adjusted_ability: float | None
    adjusted_lower: float | None
    adjusted_upper: float | None
    tie_readiness: float | None
    tie_readiness_lower: float | None
    tie_readiness_upper: float | None
    side_lean: float | None
    side_lean_lower: float | None
    side_lean_upper: float | None
    votes: int | float
    standing: str
    reason: str | None


FIGURES = tuple(
    name for name in AnnotatorRow.__annotations__ if name not in ("annotator", "votes", "standing", "reason")
)
"""What an annotator's row estimates: null under a method without abilities."""


def model_rows(rating: Rating, names: list[str]) -> list[ModelRow]:
    """Return the models with counted votes, component by component, best first."""
    models, component = rating.models, rating.models.component
    return [
        ModelRow(
            model=names[i],
            score=finite(models.score[i]),
            se=finite(models.se[i]),
            lower=finite(models.lower[i]),
            upper=finite(models.upper[i]),
            rank=int(models.rank[i]) if models.ranked[i] else None,
            best_rank=int(models.best_rank[i]) or None,
            worst_rank=int(models.worst_rank[i]) or None,
            rank_set_best=int(models.rank_set_best[i]) or None,
            rank_set_worst=int(models.rank_set_worst[i]) or None,
            class_rank=int(models.class_rank[i]) or None,
            votes=count(models.votes[i]),
            wins=count(models.wins[i]),
            ties=count(models.ties[i]),
            losses=count(models.losses[i]),
            component=int(models.component[i]),
            identified=bool(models.identified[i]),
        )
        for i in sorted(np.flatnonzero(models.votes > 0), key=lambda i: (component[i], models.rank[i], names[i]))
    ]


def annotator_rows(rating: Rating, names: list[str]) -> list[AnnotatorRow]:
    """Return every annotator, the most able first; those without an ability after them, pending ones last."""
    columns = annotator_columns(rating)
    values = (
        names,
        *(_as_list(columns[figure]) for figure in FIGURES),
        map(count, columns["votes"].tolist()),
        columns["standing"].tolist(),
        (reason or None for reason in columns["reason"].tolist()),
    )
    rows = [
        cast("AnnotatorRow", dict(zip(AnnotatorRow.__annotations__, row, strict=True)))
        for row in zip(*values, strict=True)
    ]
    return sorted(rows, key=_most_able_first)


def annotator_columns(rating: Rating) -> dict[str, NDArray[Any]]:
    """Return the columns of `AnnotatorRow` but the first, shape (n_annotators,): NaN for null, "" for no reason."""
    found, number = rating.annotators, len(rating.annotators.votes)
    plain = rating.has_abilities and rating.settings.prior_sd is None
    figures: dict[str, Floats] = {
        "ability": found.ability, "se": found.se, "probability_low": found.probability_low,
        **_intervals(habit_columns(rating.evidence, number)),
        "paper_ability": papers_gauge(found.ability) if plain else np.full(number, np.nan),
    }  # fmt: skip
    ordered = {figure: figures[figure] for figure in FIGURES}
    return {**ordered, "votes": found.votes, "standing": found.standing, "reason": found.rule}


def habit_columns(evidence: Evidence | None, n_annotators: int) -> dict[str, Floats]:
    """Return the adjusted ability, the log tie propensity and the lean in Elo points, each with its standard error.

    NaN where there is none: of annotators who were not judged, and of habits that the crowd does not have.
    """
    none = np.full(n_annotators, np.nan)
    names = ("adjusted_ability", "adjusted_se", "tie_log", "tie_se", "side_lean", "side_lean_se")
    if evidence is None:
        return dict.fromkeys(names, none)
    habits = evidence.habits
    tie_se = np.where(np.isfinite(habits.tie_log), habits.tie_se, np.nan)
    points = ELO_PER_NATURAL / habits.typical
    leans = (points * habits.lean, points * habits.lean_se) if habits.lean_sd else (none, none)
    columns = (habits.own, habits.own_se, habits.tie_log, tie_se, *leans)
    return dict(zip(names, columns, strict=True))


def _intervals(habits: dict[str, Floats]) -> dict[str, Floats]:
    """Return adjusted ability, tie readiness and side lean, each with the ends of its 95 % interval."""
    found: dict[str, Floats] = {}
    for name, estimate, se in (
        ("adjusted", "adjusted_ability", "adjusted_se"),
        ("tie_readiness", "tie_log", "tie_se"),
        ("side_lean", "side_lean", "side_lean_se"),
    ):
        for end, width in (("", 0.0), ("_lower", -QUANTILE), ("_upper", QUANTILE)):
            found[f"{name}{end}"] = habits[estimate] + (width * habits[se] if width else 0.0)
    for end in ("", "_lower", "_upper"):
        even = np.exp(found[f"tie_readiness{end}"])  # between equals: won, tied and lost as 1 : even : 1
        found[f"tie_readiness{end}"] = even / (even + 2.0)
    found["adjusted_ability"] = found.pop("adjusted")
    return found


def _as_list(values: Floats) -> list[float | None]:
    """Return the numbers, None where one is infinite or NaN."""
    found = values.astype(object)
    found[~np.isfinite(values)] = None
    return found.tolist()  # type: ignore[no-any-return]  # of objects


def count(value: float) -> int | float:
    """Return a number of votes as the whole number it is, or as it is where votes were weighted."""
    return int(value) if float(value).is_integer() else float(value)


def _most_able_first(row: AnnotatorRow) -> tuple[Any, ...]:
    ability = row["ability"]
    return (row["standing"] == "pending", ability is None, -(ability or 0.0), row["annotator"])
