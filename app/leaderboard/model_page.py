"""Everything about one model: its places, its history, its opponents."""

import math
from collections.abc import Sequence
from datetime import datetime
from typing import Self
from uuid import UUID

from pydantic import Field
from sqlalchemy import Connection, RowMapping

from app.leaderboard import queries as store
from app.leaderboard.matchups import Matchup, seen_by
from app.leaderboard.service import NeighbourGap, read_neighbours
from app.models.schemas import Alias, FoundModel, Model, Version
from app.models.service import get_model, list_aliases, list_merged, list_versions
from app.schemas import FrozenModel
from app.snapshots.differences import MEANING, Word, read_differences
from app.snapshots.queries import newest_snapshot
from app.snapshots.schemas import LeaderboardMethod

CHART_LENGTH = 200
HISTORY_LENGTH = 100
OPPONENTS_NAMED = 5
_NORMAL_95 = 1.959964


class PastFigures(FrozenModel):
    """A model's scores and ranks in one snapshot."""

    snapshot_id: UUID
    number: int = Field(description="The snapshot's number.")
    published_at: datetime
    score: float | None = Field(description="Elo points; null where the votes do not determine it.")
    se: float | None
    lower: float | None
    upper: float | None
    rank: int | None = Field(description="As on the leaderboard: null for a provisional model.")
    best_rank: int | None
    worst_rank: int | None
    votes: int


class Standing(FrozenModel):
    """A model's place on one leaderboard of the newest snapshot."""

    method: LeaderboardMethod
    tag: str | None = Field(description="The score uses only votes with this tag; null means all votes.")
    score: float | None
    se: float | None
    lower: float | None
    upper: float | None
    rank: int | None
    best_rank: int | None
    worst_rank: int | None
    rank_set_best: int | None = Field(description="As on the leaderboard.")
    rank_set_worst: int | None
    class_rank: int | None = Field(None, description="As on the leaderboard.")
    component: int = Field(description="Models compare only within a component; component 0 has the most votes.")
    votes: int


class Point(FrozenModel):
    """A model's score in one snapshot, for a chart."""

    number: int = Field(description="The snapshot's number.")
    published_at: datetime
    score: float | None
    lower: float | None
    upper: float | None
    rank: int | None
    votes: int = Field(description="Votes on the model that this snapshot counted.")


class HeadToHead(FrozenModel):
    """A model's results against one opponent in the newest snapshot's counted votes, and the prediction."""

    opponent: str
    votes: int
    wins: int
    ties: int
    losses: int
    observed: float | None = Field(description="Share of votes that the model won; a tie is half; null without votes.")
    predicted: float | None = Field(description="Probability that it wins with a typical annotator, by the scores.")
    lower: float | None = Field(
        description="Lower end of the prediction's interval; where a model has no score, a one-sided bound."
    )
    upper: float | None = Field(description="Upper end, likewise.")
    difference: Word | None = Field(None, description=f"What it is beside the opponent, by the scores. {MEANING}")

    @classmethod
    def of(cls, matchup: Matchup) -> Self:
        """Return the pair from the side of its first model."""
        figures = matchup.model_dump(exclude={"model_a", "model_b", "wins_a", "wins_b"})
        return cls(opponent=matchup.model_b, wins=matchup.wins_a, losses=matchup.wins_b, **figures)


class Neighbour(NeighbourGap):
    """A model's neighbour on the am-elo leaderboard of all votes, and how few changes of votes would swap the two."""

    model: str


class ModelDetail(Model):
    """A model with its other names, its scores and its opponents."""

    aliases: list[Alias]
    merged: list[str] = Field(description="The models whose votes count for this one.")
    versions: list[Version] = Field(description="When it changed, and for which models the votes before that count.")
    newest: PastFigures | None = Field(description="In the newest snapshot; null where the model is not in it.")
    standings: list[Standing] = Field(description="On every leaderboard of the newest snapshot, by method and tag.")
    tie_share: float | None = Field(description="Share of ties in its votes, newest snapshot; null without votes.")
    above: Neighbour | None = Field(description="The model above it; null for the first model, and where unknown.")
    below: Neighbour | None = Field(description="The model below it; null for the last model, and where unknown.")
    neighbours_computed: bool = Field(
        description="Whether `above` and `below` are known for the newest snapshot. They are computed after its "
        "publication, and null until then."
    )
    history: list[PastFigures] = Field(
        description=f"In the snapshots that have the model, the newest first, at most {HISTORY_LENGTH}."
    )
    chart: list[Point] = Field(
        description=f"In at most {CHART_LENGTH} snapshots, spread evenly over all of them, the oldest first."
    )
    head_to_head: list[HeadToHead] = Field(
        description="Against each model that is not archived, by name; empty where the newest snapshot has no matchups."
    )
    best_opponents: list[str] = Field(
        description=f"At most {OPPONENTS_NAMED} opponents, and at most half of all: those with the highest lower end "
        "of the observed win rate's 95 % interval. One that is among the worst opponents too is in neither list."
    )
    worst_opponents: list[str] = Field(
        description="Likewise, those with the lowest upper end of the observed win rate's 95 % interval."
    )


def describe_model(conn: Connection, model: FoundModel, method: LeaderboardMethod = "am-elo") -> ModelDetail:
    """Return everything about a model; `newest`, `history` and `chart` are of one method's leaderboard of all votes."""
    number = model.model_id
    history = [PastFigures(**row) for row in store.list_figures(conn, number, method, limit=HISTORY_LENGTH)]
    newest = newest_snapshot(conn)
    places = [] if newest is None else store.list_places(conn, number, newest["id"])
    opponents = [] if newest is None else _opponents(conn, newest, number)
    neighbours = ({}, {}) if newest is None else read_neighbours(conn, newest["diagnostics"])
    above, below = neighbours or ({}, {})
    best, worst = _extremes(opponents)
    return ModelDetail(
        **model.model_dump(),
        aliases=list_aliases(conn, model),
        merged=list_merged(conn, model),
        versions=list_versions(conn, model),
        newest=next((one for one in history[:1] if newest is not None and one.snapshot_id == newest["id"]), None),
        standings=[Standing.model_validate({**row, "tag": row["tag"] or None}) for row in places],
        tie_share=_tie_share(places, method),
        above=_named(conn, above.get(number)),
        below=_named(conn, below.get(number)),
        neighbours_computed=neighbours is not None,
        history=history,
        chart=[Point(**row) for row in store.list_points(conn, number, method, most=CHART_LENGTH)],
        head_to_head=opponents,
        best_opponents=best,
        worst_opponents=worst,
    )


def _opponents(conn: Connection, snapshot: RowMapping, model_id: int) -> list[HeadToHead]:
    differences = read_differences(conn, snapshot["id"])
    rows = store.list_matchups(conn, snapshot["id"], model_id=model_id)
    return sorted((HeadToHead.of(seen_by(model_id, row, differences)) for row in rows), key=lambda one: one.opponent)


def _named(conn: Connection, gap: NeighbourGap | None) -> Neighbour | None:
    return None if gap is None else Neighbour(model=get_model(conn, gap.neighbour).name, **dict(gap))


def _tie_share(places: Sequence[RowMapping], method: str) -> float | None:
    row = next((row for row in places if row["method"] == method and not row["tag"]), None)
    return row["ties"] / row["votes"] if row is not None and row["votes"] else None


def _extremes(opponents: list[HeadToHead]) -> tuple[list[str], list[str]]:
    """Name the opponents that the model beats most reliably, and those that beat it most reliably; none as both."""
    bounds = [(_wilson(one.observed, one.votes), one.opponent) for one in opponents if one.observed is not None]
    most = min(OPPONENTS_NAMED, len(bounds) // 2)
    best = [name for _, name in sorted(bounds, key=lambda one: (-one[0][0], one[1]))[:most]]
    worst = [name for _, name in sorted(bounds, key=lambda one: (one[0][1], one[1]))[:most]]
    return [name for name in best if name not in worst], [name for name in worst if name not in best]


def _wilson(share: float, votes: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share of `votes` votes; a tie counts half."""
    z2 = _NORMAL_95**2
    middle = (share + z2 / (2 * votes)) / (1 + z2 / votes)
    half = _NORMAL_95 * math.sqrt(share * (1 - share) / votes + z2 / (4 * votes**2)) / (1 + z2 / votes)
    return middle - half, middle + half
