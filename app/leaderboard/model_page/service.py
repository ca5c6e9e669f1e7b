"""Everything about one model: its places, its history, its opponents."""

import math
from collections.abc import Sequence

from sqlalchemy import Connection, RowMapping

from app.leaderboard import queries as store
from app.leaderboard.fragility import Gap, Neighbours, read_neighbours
from app.leaderboard.matchups.schemas import Matchup
from app.leaderboard.model_page.schemas import (
    CHART_LENGTH,
    HISTORY_LENGTH,
    OPPONENTS_NAMED,
    HeadToHead,
    ModelDetail,
    Neighbour,
    PastFigures,
    Point,
    Standing,
)
from app.leaderboard.queries import list_matchups
from app.models.schemas import FoundModel
from app.models.service import get_model, list_aliases, list_merged, list_versions
from app.snapshots.queries import newest_snapshot
from app.snapshots.schemas import LeaderboardMethod

_NORMAL_95 = 1.959964


def describe_model(conn: Connection, model: FoundModel, method: LeaderboardMethod = "am-elo") -> ModelDetail:
    """Return everything about a model; `newest`, `history` and `chart` are of one method's leaderboard of all votes."""
    number = model.model_id
    history = [PastFigures(**row) for row in store.list_figures(conn, number, method, limit=HISTORY_LENGTH)]
    newest = newest_snapshot(conn)
    places = [] if newest is None else store.list_places(conn, number, newest["id"])
    opponents = [] if newest is None else _opponents(conn, newest, number)
    neighbours = Neighbours({}, {}) if newest is None else read_neighbours(conn, newest["diagnostics"])
    best, worst = _extremes(opponents)
    return ModelDetail(
        **model.public().model_dump(),
        aliases=list_aliases(conn, model),
        merged=list_merged(conn, number),
        versions=list_versions(conn, model),
        newest=next((one for one in history[:1] if newest is not None and one.snapshot_id == newest["id"]), None),
        standings=[Standing.model_validate({**row, "tag": row["tag"] or None}) for row in places],
        tie_share=_tie_share(places, method),
        above=_named(conn, neighbours.above.get(number)),
        below=_named(conn, neighbours.below.get(number)),
        neighbours_computed=neighbours.computed,
        history=history,
        chart=[Point(**row) for row in store.list_points(conn, number, method, most=CHART_LENGTH)],
        head_to_head=opponents,
        best_opponents=best,
        worst_opponents=worst,
    )


def _opponents(conn: Connection, snapshot: RowMapping, model_id: int) -> list[HeadToHead]:
    pairs = [(Matchup.of(row), row["model_b_id"]) for row in list_matchups(conn, snapshot["id"], model_id=model_id)]
    seen = [pair.swapped() if second == model_id else pair for pair, second in pairs]
    return sorted((HeadToHead.of(pair) for pair in seen), key=lambda one: one.opponent)


def _named(conn: Connection, gap: Gap | None) -> Neighbour | None:
    return None if gap is None else Neighbour(model=get_model(conn, gap.neighbour).name, **dict(gap))


def _tie_share(places: Sequence[RowMapping], method: str) -> float | None:
    row = next((row for row in places if row["method"] == method and not row["tag"]), None)
    return row["ties"] / row["votes"] if row is not None and row["votes"] else None


def _extremes(opponents: list[HeadToHead]) -> tuple[list[str], list[str]]:
    """Name the opponents that the model beats most reliably, and those that beat it most reliably."""
    bounds = [(_wilson(one.observed, one.votes), one.opponent) for one in opponents if one.observed is not None]
    most = min(OPPONENTS_NAMED, len(bounds) // 2)
    best = sorted(bounds, key=lambda one: (-one[0][0], one[1]))[:most]
    worst = sorted(bounds, key=lambda one: (one[0][1], one[1]))[:most]
    return [name for _, name in best], [name for _, name in worst]


def _wilson(share: float, votes: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share of `votes` votes; a tie counts half."""
    z2 = _NORMAL_95**2
    middle = (share + z2 / (2 * votes)) / (1 + z2 / votes)
    half = _NORMAL_95 * math.sqrt(share * (1 - share) / votes + z2 / (4 * votes**2)) / (1 + z2 / votes)
    return middle - half, middle + half
