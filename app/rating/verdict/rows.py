"""A rating's arrays as plain rows, ready for JSON, CSV or a table: what every printed leaderboard is made of."""

from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from app.rating.arrays import Floats, finite
from app.rating.errors import RatingNotice, VotesError
from app.rating.plain.elo import EloResult, fit_elo
from app.rating.types.evidence import Evidence
from app.rating.uncertainty.ranks import rank_by
from app.rating.units import ELO_PER_NATURAL, papers_gauge
from app.rating.verdict.rating import Rating
from app.rating.votes.cells import Cells
from app.rating.votes.graph import find_components
from app.rating.votes.indexed import IndexedVotes

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
    found = rating.annotators
    habits = habit_columns(rating.evidence, len(names))
    plain = rating.has_abilities and rating.settings.prior_sd is None
    figures: dict[str, Floats] = {
        "ability": found.ability, "se": found.se, "probability_low": found.probability_low, **_intervals(habits),
        "paper_ability": papers_gauge(found.ability) if plain else np.full(len(names), np.nan),
    }  # fmt: skip
    rows = [
        AnnotatorRow(
            annotator=name,
            **{figure: finite(figures[figure][k]) for figure in FIGURES},  # type: ignore[typeddict-item]  # its keys
            votes=count(found.votes[k]),
            standing=str(found.standing[k]),
            reason=str(found.rule[k]) or None,
        )
        for k, name in enumerate(names)
    ]
    return sorted(rows, key=_most_able_first)


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


def count(value: float) -> int | float:
    """Return a number of votes as the whole number it is, or as it is where votes were weighted."""
    return int(value) if float(value).is_integer() else float(value)


def _most_able_first(row: AnnotatorRow) -> tuple[Any, ...]:
    ability = row["ability"]
    return (row["standing"] == "pending", ability is None, -(ability or 0.0), row["annotator"])


class EloRow(TypedDict):
    """One model, in Elo points: score is the mean over shuffles, recorded the score in the file's order."""

    model: str
    score: float
    sem: float
    sd: float
    recorded: float
    votes: int | float
    wins: int | float
    ties: int | float
    losses: int | float
    rank: int


@dataclass(frozen=True)
class EloLeaderboard:
    """Elo's rows, best first, and how many votes they come from."""

    models: list[EloRow]
    annotators: list[AnnotatorRow]
    votes_used: int
    components: int
    k: float
    warnings: list[RatingNotice]


def rate_by_order(
    votes: IndexedVotes,
    cells: Cells,
    *,
    min_votes: float,
    base: float,
    anchor: tuple[int, float] | None,
    shuffles: int,
    seed: int,
    k: float = 4.0,
) -> EloLeaderboard:
    """Fit Elo to the votes of annotators with more than `min_votes` votes.

    Parameters
    ----------
    cells : the same votes, aggregated.
    base : the score at which every model starts; the mean stays there.
    k : the most that one vote moves a score, Elo points.
    anchor : (model index, Elo points): all scores are shifted so that this model has this score.

    Raises
    ------
    VotesError
        No vote is left after `min_votes`, or none on the anchor.
    """
    votes = votes.repeated()
    by_annotator = votes.rankings_by_annotator()
    by_annotator = cells.votes_by_annotator() if by_annotator is None else by_annotator
    counted = by_annotator > min_votes
    keep = counted[votes.annotator]
    if not keep.any():
        raise VotesError(f"no vote is left: no annotator has more than {min_votes} votes", "no-votes")
    used, position = np.unique(np.concatenate([votes.model_a[keep], votes.model_b[keep]]), return_inverse=True)
    a, b = np.split(position, 2)
    outcome = votes.outcome[keep]
    result = fit_elo(a, b, outcome, n_models=len(used), k=k, initial=base, shuffles=shuffles, seed=seed)
    shift, rank = _shift(result, used, anchor), rank_by(result.score)
    wins, ties, losses = (
        np.bincount(a, outcome == value, len(used)) + np.bincount(b, outcome == 1 - value, len(used))
        for value in (1.0, 0.5, 0.0)
    )
    rows = [
        EloRow(
            model=votes.models[model],
            score=float(result.score[i] + shift),
            sem=float(result.sem[i]),
            sd=float(result.sd[i]),
            recorded=float(result.recorded[i] + shift),
            votes=count(wins[i] + ties[i] + losses[i]),
            wins=count(wins[i]),
            ties=count(ties[i]),
            losses=count(losses[i]),
            rank=int(rank[i]),
        )
        for i, model in enumerate(used)
    ]
    components = find_components(cells.where(counted[cells.annotator])).number
    return EloLeaderboard(
        models=sorted(rows, key=lambda row: (row["rank"], row["model"])),
        annotators=_voters(votes.annotators, by_annotator, counted),
        votes_used=int(keep.sum()),
        components=components,
        k=result.k,
        warnings=_notices(components),
    )


def _notices(components: int) -> list[RatingNotice]:
    if components == 1:
        return []
    detail = f"no vote links {components} groups of models: ranks cannot be compared across groups"
    return [RatingNotice("disconnected-graph", detail)]


def _shift(result: EloResult, used: NDArray[np.int32], anchor: tuple[int, float] | None) -> float:
    if anchor is None:
        return 0.0
    model, points = anchor
    if model not in used:
        raise VotesError("the anchor model has no counted votes")
    return float(points - result.score[np.searchsorted(used, model)])


def _voters(names: list[str], votes: NDArray[np.float64], counted: NDArray[np.bool_]) -> list[AnnotatorRow]:
    """Return the annotators, most votes first; Elo estimates no abilities, it only counts votes."""
    rows = [
        AnnotatorRow(
            annotator=name,
            **dict.fromkeys(FIGURES),  # type: ignore[typeddict-item]  # keys of the row
            votes=count(votes[i]),
            standing="active" if counted[i] else "pending",
            reason=None,
        )
        for i, name in enumerate(names)
    ]
    return sorted(rows, key=lambda row: (-row["votes"], row["annotator"]))
