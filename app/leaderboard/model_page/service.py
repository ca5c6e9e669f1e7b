"""Everything there is to show of one model: where it stands, how it came there, whom it beats."""

import math
from collections.abc import Sequence
from datetime import datetime
from typing import Self

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection, RowMapping

from app.leaderboard.fragility import Gap, read_neighbours
from app.leaderboard.matchups.queries import list_matchups
from app.leaderboard.matchups.service import Matchup
from app.models import queries as store
from app.models.service import HISTORY_LENGTH, Alias, FoundModel, Model, PastFigures, list_aliases, list_figures
from app.snapshots.methods import BoardMethod
from app.snapshots.queries import newest_snapshot

CHART_LENGTH = 200
OPPONENTS_NAMED = 5
_NORMAL_95 = 1.959964


class Standing(BaseModel):
    """Where a model stands on one board of the newest snapshot."""

    model_config = ConfigDict(frozen=True)

    method: BoardMethod
    tag: str | None = Field(description="Only votes with this tag are in the score; null for all votes.")
    score: float | None
    se: float | None
    lower: float | None
    upper: float | None
    rank: int | None
    best_rank: int | None
    worst_rank: int | None
    votes: int


class Point(BaseModel):
    """A model's figures in one snapshot, for a chart."""

    model_config = ConfigDict(frozen=True)

    number: int = Field(description="The snapshot's number.")
    published_at: datetime
    score: float | None
    lower: float | None
    upper: float | None
    rank: int | None
    votes: int = Field(description="Votes on the model that had been counted by then.")


class HeadToHead(BaseModel):
    """How a model fared against another in the newest snapshot's counted votes, and what the board predicts."""

    model_config = ConfigDict(frozen=True)

    opponent: str
    votes: int
    wins: int
    ties: int
    losses: int
    observed: float | None = Field(description="Share of the votes that the model won, a tie half; null without votes.")
    predicted: float | None = Field(description="Probability that it wins with a typical annotator, by the scores.")
    lower: float | None = Field(description="Lower end of the prediction's interval.")
    upper: float | None = Field(description="Upper end of the prediction's interval.")

    @classmethod
    def of(cls, matchup: Matchup) -> Self:
        """Return the pair as its first model sees it."""
        figures = matchup.model_dump(exclude={"model_a", "model_b", "wins_a", "wins_b"})
        return cls(opponent=matchup.model_b, wins=matchup.wins_a, losses=matchup.wins_b, **figures)


class Neighbour(Gap):
    """A model's neighbour on the am-elo board of all votes, and what it would take to swap the two."""

    model: str


class ModelDetail(Model):
    """A model with its other names, its figures and its opponents."""

    aliases: list[Alias]
    newest: PastFigures | None = Field(description="In the newest snapshot; null where it is not on that board.")
    standings: list[Standing] = Field(description="On every board of the newest snapshot, by method and tag.")
    tie_share: float | None = Field(description="Share of ties in its votes on the newest board; null without votes.")
    above: Neighbour | None = Field(description="The model above it; null for the first and where it is not known.")
    below: Neighbour | None = Field(description="The model below it; null for the last and where it is not known.")
    history: list[PastFigures] = Field(
        description=f"In the boards it was on, the newest first, at most {HISTORY_LENGTH}."
    )
    chart: list[Point] = Field(
        description=f"In at most {CHART_LENGTH} snapshots spread over all there are, the oldest first."
    )
    head_to_head: list[HeadToHead] = Field(
        description="Against each other model that is not archived, by name; empty where the newest snapshot kept none."
    )
    best_opponents: list[str] = Field(
        description=f"At most {OPPONENTS_NAMED}, and half of those it met: those it surely beats most often, by the "
        "95 % interval of the observed win rate."
    )
    worst_opponents: list[str] = Field(description="The same of those that surely beat it most often.")


def describe_model(conn: Connection, model: FoundModel, method: BoardMethod = "am-elo") -> ModelDetail:
    """Return everything there is to show of a model; figures and history are of one method's board of all votes."""
    history = list_figures(conn, model, method)
    newest = newest_snapshot(conn)
    places = [] if newest is None else store.list_places(conn, model.model_id, newest["id"])
    met = [] if newest is None else _opponents(conn, newest, model)
    above, below = (None, None) if newest is None else _neighbours(conn, newest, model)
    best, worst = _extremes(met)
    return ModelDetail(
        **model.public().model_dump(),
        aliases=list_aliases(conn, model),
        newest=next((one for one in history[:1] if newest is not None and one.snapshot_id == newest["id"]), None),
        standings=[Standing.model_validate({**row, "tag": row["tag"] or None}) for row in places],
        tie_share=_tie_share(places, method),
        above=above,
        below=below,
        history=history,
        chart=[
            Point.model_validate(dict(row))
            for row in store.list_points(conn, model.model_id, method, most=CHART_LENGTH)
        ],
        head_to_head=met,
        best_opponents=best,
        worst_opponents=worst,
    )


def _opponents(conn: Connection, snapshot: RowMapping, model: FoundModel) -> list[HeadToHead]:
    number = model.model_id
    pairs = [(Matchup.of(row), row["model_b_id"]) for row in list_matchups(conn, snapshot["id"], model_id=number)]
    seen = [pair.swapped() if second == number else pair for pair, second in pairs]
    return sorted((HeadToHead.of(pair) for pair in seen), key=lambda one: one.opponent)


def _neighbours(conn: Connection, snapshot: RowMapping, model: FoundModel) -> tuple[Neighbour | None, Neighbour | None]:
    found = read_neighbours(conn, snapshot["diagnostics"])
    above, below = found.above.get(model.model_id), found.below.get(model.model_id)
    return _named(conn, above), _named(conn, below)


def _named(conn: Connection, gap: Gap | None) -> Neighbour | None:
    if gap is None:
        return None
    return Neighbour(model=store.get_model(conn, gap.neighbour)["name"], **dict(gap))


def _tie_share(places: Sequence[RowMapping], method: str) -> float | None:
    row = next((row for row in places if row["method"] == method and not row["tag"]), None)
    return row["ties"] / row["votes"] if row is not None and row["votes"] else None


def _extremes(met: list[HeadToHead]) -> tuple[list[str], list[str]]:
    """Name the opponents that are surely beaten most often, and those that surely beat most often."""
    bounds = [(_wilson(one.observed, one.votes), one.opponent) for one in met if one.observed is not None]
    most = min(OPPONENTS_NAMED, len(bounds) // 2)
    best = sorted(bounds, key=lambda one: (-one[0][0], one[1]))[:most]
    worst = sorted(bounds, key=lambda one: (one[0][1], one[1]))[:most]
    return [name for _, name in best], [name for _, name in worst]


def _wilson(share: float, votes: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share of so many votes, a tie taken as half of one."""
    z2 = _NORMAL_95**2
    middle = (share + z2 / (2 * votes)) / (1 + z2 / votes)
    half = _NORMAL_95 * math.sqrt(share * (1 - share) / votes + z2 / (4 * votes**2)) / (1 + z2 / votes)
    return middle - half, middle + half
