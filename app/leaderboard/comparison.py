"""Two models side by side: their places, their record, what is predicted, and how each did against the same others."""

from dataclasses import dataclass

from sqlalchemy import Connection

from app.leaderboard import queries as store
from app.leaderboard.matchups import Matchup, list_matchups
from app.leaderboard.model_page import Standing
from app.models.schemas import FoundModel
from app.snapshots.differences import Differences, read_differences
from app.snapshots.schemas import LeaderboardMethod, SnapshotHead


@dataclass(frozen=True)
class ModelComparison:
    """Two models in one snapshot.

    Attributes
    ----------
    a, b : each model's place on every leaderboard of all votes
    matchup : their votes on each other, and the prediction, from the side of the first
    comparable : whether votes link the two, so that their scores are on one scale
    common : opponents of both, those with the most votes first
    """

    a: dict[LeaderboardMethod, Standing]
    b: dict[LeaderboardMethod, Standing]
    matchup: Matchup
    comparable: bool
    common: list[tuple[str, Matchup, Matchup]]


def compare_models(conn: Connection, snapshot: SnapshotHead, a: FoundModel, b: FoundModel) -> ModelComparison:
    """Compare two models in a snapshot. Raises NoMatchupsError."""
    of_a, of_b = _results(conn, snapshot, a), _results(conn, snapshot, b)
    places = _places(conn, snapshot, a), _places(conn, snapshot, b)
    main = [one.get("am-elo") for one in places]
    comparable = main[0] is not None and main[1] is not None and main[0].component == main[1].component
    common = [(name, of_a[name], of_b[name]) for name in of_a.keys() & of_b.keys()]
    ends = main if comparable else (None, None)
    met = [one for one in common if one[1].votes and one[2].votes]
    return ModelComparison(
        *places,
        matchup=of_a.get(b.name) or _unmet(a, b, read_differences(conn, snapshot.id), *ends),
        comparable=comparable,
        common=sorted(met, key=lambda one: (-min(one[1].votes, one[2].votes), one[0])),
    )


def win_probability(score: float, other: float) -> float:
    """Return how often a typical annotator prefers the model with the first score, both in Elo points."""
    return float(1.0 / (1.0 + 10.0 ** ((other - score) / 400.0)))


def _results(conn: Connection, snapshot: SnapshotHead, model: FoundModel) -> dict[str, Matchup]:
    found = list_matchups(conn, snapshot, model_id=model.model_id)
    return {one.model_b: one for one, _ in found}


def _places(conn: Connection, snapshot: SnapshotHead, model: FoundModel) -> dict[LeaderboardMethod, Standing]:
    rows = store.list_places(conn, model.model_id, snapshot.id)
    places = [Standing.model_validate({**row, "tag": None}) for row in rows if not row["tag"]]
    return {one.method: one for one in places}


def _unmet(
    a: FoundModel, b: FoundModel, differences: Differences | None, place: Standing | None, other: Standing | None
) -> Matchup:
    """Return a pair without votes. Large leaderboards store no prediction for it: the scores give it, no interval."""
    predicted = None
    if place is not None and other is not None and place.score is not None and other.score is not None:
        predicted = win_probability(place.score, other.score)
    known = {"predicted": predicted, "lower": None, "upper": None}
    row = {"model_a": a.name, "model_b": b.name, "wins_a": 0, "ties": 0, "wins_b": 0, **known}
    return Matchup.of(row, differences)
