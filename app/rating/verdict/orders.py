"""Elo updated vote after vote, over many orders of the votes, as rows."""

from dataclasses import dataclass
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from app.rating.errors import VotesError
from app.rating.fit.elo import EloResult, fit_elo
from app.rating.uncertainty.ranks import rank_by
from app.rating.uncertainty.results import RatingNotice
from app.rating.verdict.rows import FIGURES, AnnotatorRow, count
from app.rating.votes.cells import Cells
from app.rating.votes.graph import find_components
from app.rating.votes.indexed import IndexedVotes


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
    counted = cells.votes_by_annotator() > min_votes
    keep = counted[votes.annotator]
    if not keep.any():
        raise VotesError(f"no vote is left: no annotator has more than {min_votes} votes")
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
        annotators=_voters(votes.annotators, cells.votes_by_annotator(), counted),
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
