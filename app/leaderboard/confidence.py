"""How sure the order of a leaderboard is, as readers get it: the best k models, and how many more votes it takes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from pydantic import Field
from sqlalchemy import Connection, RowMapping

from app.errors import BadInputError, FieldError, NotFoundError
from app.leaderboard.schemas import TAG
from app.leaderboard.service import check_leaderboard
from app.rating.arrays import Floats
from app.rating.settings import MOST_MODELS, MOST_RANKS
from app.rating.verdict.forecasts import forecast_pairs
from app.rating.verdict.order import Confidence, LeadersVerdict, Verdict, equality_cost, order_cost
from app.schemas import FrozenModel
from app.snapshots.confidence import find_confidence
from app.snapshots.queries import list_placed_models
from app.snapshots.schemas import SnapshotHead
from app.wording import listed, plural

_LISTED = 100
_NAMED = 5  # leaders that a sentence names


class MoreVotes(FrozenModel):
    """A forecast of how many more votes are needed; null means more than 50 times the votes so far."""

    low: int | None = Field(description="With a probability of 10 % fewer are enough.")
    median: int | None
    high: int | None = Field(description="With a probability of 10 % more are needed.")


class ModelConfidence(FrozenModel):
    """How sure a model's place is."""

    model: str
    rank: int
    score: float
    p_best: float = Field(
        description="Probability that it is the best model, for one look: over many refits even one of two equal "
        "models comes to a high one. The verdict allows for that."
    )
    p_top_k: float = Field(description="Probability that it is among the best k, for one look.")


class UndecidedPair(FrozenModel):
    """A model among the best k and one that is not, whose order is not certain."""

    above: str
    below: str
    gap: float = Field(description="Elo points between the two.")
    half_width: float = Field(description="The order is certain once the gap exceeds this.")
    equal: bool = Field(description="Whether the two are certainly within the margin.")
    more_votes: MoreVotes = Field(
        description="Until the order of the two is certain, or that they are within the margin."
    )


class LeaderboardConfidence(FrozenModel):
    """Whether the votes are enough to say which models are the best k."""

    snapshot: SnapshotHead
    tag: str | None = Field(description=f"{TAG} Null for the leaderboard of all votes.")
    k: int
    confidence: float = Field(description="Of the verdict, over all refits together: the policy's decision_confidence.")
    margin: float = Field(
        description="Elo points within which models are practically equal: the policy's equal_margin."
    )
    verdict: Verdict = Field(
        description="decided: these are the best k. equal: where that is not certain, the models are practically "
        "equal, and more votes are not worth their cost. not-yet: neither."
    )
    sentence: str = Field(description="The verdict in words, for a page.")
    leaders: list[str] = Field(description="The k models with the highest scores, best first; archived ones count.")
    votes: int = Field(description="Counted votes on the ranked models.")
    more_votes: MoreVotes | None = Field(
        description="Until the verdict is `decided` or `equal`, if battles are chosen as they are now; null when it "
        "is. Too few for a category: what its scores have from other votes counts as its own."
    )
    unscored: int = Field(
        description="Models that only won or only lost, so that they have no score. While one of them may belong among "
        "the best k, the verdict is `not-yet`."
    )
    provisional: int = Field(
        description="Models without a rank: with too few votes, or unreleased. The verdict is on the ranked ones only."
    )
    models: list[ModelConfidence] = Field(
        description="The largest component's ranked models, best first, without archived ones."
    )
    undecided_pairs: int = Field(description="How many pairs are not certain.")
    undecided: list[UndecidedPair] = Field(description="At most 100 of them, the closest first.")


class NoConfidenceError(NotFoundError):
    """The snapshot has the leaderboard, but not how sure its order is."""

    code = "no-confidence"
    title = "It is not known how sure the order of this leaderboard is"


def describe_confidence(
    conn: Connection, snapshot: SnapshotHead, *, k: int = 1, tag: str | None = None
) -> LeaderboardConfidence:
    """Say whether the votes of a snapshot are enough to know the best k of the ranked models.

    Raises BadInputError: k is not below the number of ranked models with a score, or above 50.
    Raises NoSuchLeaderboardError.
    Raises NoConfidenceError: an old snapshot, a leaderboard without intervals, or too few or too many models.
    """
    check_leaderboard(conn, snapshot, "am-elo", tag=tag)
    places, known = _read_leaderboard(conn, snapshot, tag or "")
    most = min(MOST_RANKS, len(places) - 1)
    if not 1 <= k <= most:
        raise BadInputError(f"k must be from 1 to {most}", (FieldError("/k", f"must be from 1 to {most}"),))
    verdict = known.decide(k)
    more = None if verdict.verdict != "not-yet" else _more_votes(known.forecasts[k - 1])
    leaders = [row["model"] for row in places[:k]]
    return LeaderboardConfidence(
        snapshot=snapshot,
        tag=tag,
        k=k,
        confidence=known.rule.confidence,
        margin=known.rule.margin,
        verdict=verdict.verdict,
        sentence=describe_verdict(verdict, known, leaders, more),
        leaders=leaders,
        votes=round(known.votes),
        more_votes=more,
        unscored=known.unscored.number,
        provisional=known.unscored.provisional,
        models=[
            ModelConfidence(**row, p_best=within[0], p_top_k=within[k - 1])
            for row, within in zip(places, known.within.tolist(), strict=True)
            if not row["archived"]
        ],
        undecided_pairs=int(verdict.open.sum()),
        undecided=_undecided(places, known, verdict),
    )


@dataclass(frozen=True)
class Outlook:
    """Whether the best model is decided: `short` in a few words, with the votes still needed, and as a `sentence`."""

    short: str
    sentence: str


def find_outlook(conn: Connection, snapshot: SnapshotHead, tag: str | None, component: int) -> Outlook | None:
    """Say in words whether the best model of a group is decided; None where the snapshot does not have it."""
    try:
        places, known = _read_leaderboard(conn, snapshot, tag or "", component)
    except NoConfidenceError:
        return None
    verdict, more = known.decide(1), _more_votes(known.forecasts[0])
    short = {
        "decided": f"Decided with {100 * known.rule.confidence:g} % confidence.",
        "equal": f"Within {known.rule.margin:g} Elo points: not worth more votes.",
        "not-yet": "A model without a score may lead." if verdict.unscored_may_lead else _settled(more) + ".",
    }
    sentence = describe_verdict(verdict, known, [places[0]["model"]], more)
    return Outlook(short[verdict.verdict], sentence)


def _read_leaderboard(
    conn: Connection, snapshot: SnapshotHead, tag: str, component: int = 0
) -> tuple[list[RowMapping], Confidence]:
    """Return a leaderboard's models, best first, and how sure their order is. Raises NoConfidenceError."""
    known = find_confidence(conn, snapshot.id, tag, component)
    if known is None:
        raise NoConfidenceError(
            f"snapshot {snapshot.number} does not say how sure its order is: old snapshots drop it, early versions of "
            f"the service did not compute it, and it needs intervals and 2 to {MOST_MODELS} ranked models with a score"
        )
    places = {row["model_id"]: row for row in list_placed_models(conn, snapshot.id, tag=tag, with_hidden=True)}
    return [places[model_id] for model_id in known.joint.models.tolist()], known


def _undecided(places: Sequence[RowMapping], known: Confidence, verdict: LeadersVerdict) -> list[UndecidedPair]:
    """Return the pairs that are not certain, the closest first, each with its own forecast."""
    k, n = verdict.k, len(places)
    i, j = np.nonzero(verdict.open)
    order = np.argsort((verdict.gap / np.maximum(verdict.half, np.finfo(float).tiny))[i, j], kind="stable")[:_LISTED]
    i, j = i[order], j[order]
    pair = (i, j + k)
    models = n + known.unscored.count
    costs = order_cost(known.rule, k, models), equality_cost(known.rule, n + known.unscored.provisional)
    ahead = forecast_pairs(
        verdict.gap[i, j], known.joint.errors[pair], known.doubled[pair], known.joint.contrast_freedom[pair],
        votes=known.votes, costs=costs,
        margin=known.rule.margin,
    )  # fmt: skip
    return [
        UndecidedPair(
            above=places[above]["model"],
            below=places[below + k]["model"],
            gap=verdict.gap[above, below],
            half_width=verdict.half[above, below],
            equal=verdict.equal[above, below],
            more_votes=_more_votes(votes),
        )
        for above, below, votes in zip(i.tolist(), j.tolist(), ahead, strict=True)
    ]


def _more_votes(points: Floats) -> MoreVotes:
    """Return a forecast in two significant digits, as it is no surer than that."""
    votes = [round(float(f"{max(x, 1.0):.2g}")) if math.isfinite(x) else None for x in points.tolist()]
    return MoreVotes(low=votes[0], median=votes[1], high=votes[2])


def describe_verdict(verdict: LeadersVerdict, known: Confidence, leaders: list[str], more: MoreVotes | None) -> str:
    """Return the verdict as one or two sentences."""
    which = "which model is the best" if verdict.k == 1 else f"which are the best {verdict.k} models"
    open_pairs = plural(int(verdict.open.sum()), "pair")
    match verdict.verdict:
        case "decided":
            return _decided(leaders, f"with {100 * known.rule.confidence:g} % confidence")
        case "equal":
            return (
                f"It is not worth more votes to decide {which}: {open_pairs} of models may be in either order, "
                f"but all of them are within {known.rule.margin:g} Elo points."
            )
        case "not-yet" if verdict.unscored_may_lead:
            unscored = plural(known.unscored.number, "model")
            return f"It is not decided {which}: {unscored} without a score may belong there."
        case _:
            return f"It is not decided {which}: {open_pairs} of models may be in either order. {_ahead(more)}"


def _decided(leaders: list[str], confidence: str) -> str:
    if len(leaders) == 1:
        return f"{leaders[0]} is the best model, {confidence}."
    if len(leaders) > _NAMED:
        return f"The best {len(leaders)} models are decided, {confidence}."
    return f"The best {len(leaders)} models are {listed(leaders, len(leaders))}, {confidence}."


def _ahead(more: MoreVotes | None) -> str:
    if more is None or more.median is None:
        return f"{_settled(more)}."
    upper = "far more" if more.high is None else f"{more.high:,}"
    return f"{_settled(more)} (from {more.low:,} to {upper})."


def _settled(more: MoreVotes | None) -> str:
    if more is None or more.median is None:
        return "More than 50 times the votes so far may be needed"
    return f"About {more.median:,} more votes would settle it"
