import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sqlalchemy import Connection, RowMapping

from app.errors import BadInputError, FieldError, NotFoundError
from app.leaderboard.confidence import queries as store
from app.leaderboard.confidence.schemas import LeaderboardConfidence, ModelConfidence, MoreVotes, UndecidedPair
from app.leaderboard.confidence.sentences import describe_decision
from app.leaderboard.service import check_leaderboard
from app.rating.arrays import Floats
from app.rating.verdict.confidence import MOST_MODELS, MOST_RANKS, Confidence, forecast_pairs
from app.rating.verdict.order import Decision, equality_cost, order_cost
from app.snapshots.confidence import find_confidence
from app.snapshots.schemas import SnapshotHead

_LISTED = 100


class NoConfidenceError(NotFoundError):
    """The snapshot has the leaderboard, but not how sure its order is."""

    code = "no-confidence"
    title = "It is not known how sure the order of this leaderboard is"


@dataclass(frozen=True)
class _Board:
    """A leaderboard's models, best first, and how sure their order is."""

    places: Sequence[RowMapping]
    known: Confidence


def describe_confidence(
    conn: Connection, snapshot: SnapshotHead, *, k: int = 1, tag: str | None = None
) -> LeaderboardConfidence:
    """Say whether the votes of a snapshot are enough to know the best k of the ranked models.

    Raises
    ------
    BadInputError
        k is not below the number of ranked models with a score, or above 50.
    NoSuchLeaderboardError
    NoConfidenceError
        An old snapshot, a leaderboard without intervals, or too few or too many models.
    """
    check_leaderboard(conn, snapshot, "am-elo", tag=tag)
    board = _read_board(conn, snapshot, tag or "")
    n = len(board.places)
    if not 1 <= k <= min(MOST_RANKS, n - 1):
        most = min(MOST_RANKS, n - 1)
        raise BadInputError(f"k must be from 1 to {most}", (FieldError("/k", f"must be from 1 to {most}"),))
    known, decision = board.known, board.known.decide(k)
    more = None if decision.verdict != "not-yet" else _more_votes(known.forecasts[k - 1])
    leaders = [row["model"] for row in board.places[:k]]
    return LeaderboardConfidence(
        snapshot=snapshot,
        tag=tag,
        k=k,
        confidence=known.rule.confidence,
        margin=known.rule.margin,
        verdict=decision.verdict,
        sentence=describe_decision(decision, known, leaders, more),
        leaders=leaders,
        votes=round(known.votes),
        more_votes=more,
        unscored=known.unscored.number,
        provisional=known.unscored.provisional,
        models=[
            ModelConfidence(**row, p_best=within[0], p_top_k=within[k - 1])
            for row, within in zip(board.places, known.within.tolist(), strict=True)
            if not row["archived"]
        ],
        undecided_pairs=int(decision.open.sum()),
        undecided=_undecided(board, decision),
    )


def find_sentence(conn: Connection, snapshot: SnapshotHead, tag: str | None = None) -> str | None:
    """Say in words whether the best model is decided; None where the snapshot does not have it."""
    try:
        board = _read_board(conn, snapshot, tag or "")
    except NoConfidenceError:
        return None
    decision = board.known.decide(1)
    more = _more_votes(board.known.forecasts[0])
    return describe_decision(decision, board.known, [board.places[0]["model"]], more)


def _read_board(conn: Connection, snapshot: SnapshotHead, tag: str) -> _Board:
    known = find_confidence(conn, snapshot.id, tag)
    if known is None:
        raise NoConfidenceError(
            f"snapshot {snapshot.number} does not say how sure its order is: old snapshots drop it, early versions of "
            f"the service did not compute it, and it needs intervals and 2 to {MOST_MODELS} ranked models with a score"
        )
    model_ids = known.joint.models.tolist()
    places = store.read_places(conn, snapshot.id, tag, model_ids)
    return _Board([places[model_id] for model_id in model_ids], known)


def _undecided(board: _Board, decision: Decision) -> list[UndecidedPair]:
    """Return the pairs that are not certain, the closest first, each with its own forecast."""
    known, k, n = board.known, decision.k, len(board.places)
    i, j = np.nonzero(decision.open)
    order = np.argsort((decision.gap / np.maximum(decision.half, np.finfo(float).tiny))[i, j], kind="stable")[:_LISTED]
    i, j = i[order], j[order]
    pair = (i, j + k)
    models = n + known.unscored.count
    costs = order_cost(known.rule, k, models), equality_cost(known.rule, n + known.unscored.provisional)
    ahead = forecast_pairs(
        decision.gap[i, j], known.joint.errors[pair], known.doubled[pair], known.joint.contrast_freedom[pair],
        votes=known.votes, costs=costs,
        margin=known.rule.margin,
    )  # fmt: skip
    points = np.stack([ahead.low, ahead.median, ahead.high], axis=1)
    return [
        UndecidedPair(
            above=board.places[above]["model"],
            below=board.places[below + k]["model"],
            gap=decision.gap[above, below],
            half_width=decision.half[above, below],
            equal=decision.equal[above, below],
            more_votes=_more_votes(votes),
        )
        for above, below, votes in zip(i.tolist(), j.tolist(), points, strict=True)
    ]


def _more_votes(points: Floats) -> MoreVotes:
    """Return a forecast in two significant digits, as it is no surer than that."""
    low, median, high = (_rounded(votes) for votes in points.tolist())
    return MoreVotes(low=low, median=median, high=high)


def _rounded(votes: float) -> int | None:
    if not math.isfinite(votes):
        return None
    return round(float(f"{max(votes, 1.0):.2g}"))
