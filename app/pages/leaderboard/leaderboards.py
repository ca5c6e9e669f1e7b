"""Leaderboards ready to be shown: each is read and drawn once for all readers of a process."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from threading import Lock

from cachetools import LRUCache, cached
from markupsafe import Markup
from sqlalchemy import Connection

from app.leaderboard.confidence import find_sentence
from app.leaderboard.diff.schemas import RowChange
from app.leaderboard.diff.service import compare_leaderboards
from app.leaderboard.schemas import LeaderboardRow, PublishedLeaderboard
from app.leaderboard.service import LeaderboardVersion, read_published
from app.leaderboard.verdict import describe_verdict
from app.pages.formatting import METHODS, method_name
from app.pages.leaderboard.rows import Axis, Row
from app.pages.rendering import templates
from app.snapshots.queries import list_leaderboards, list_placed_models, list_snapshots
from app.snapshots.schemas import LeaderboardMethod
from app.wording import plural

_ABOUT: dict[LeaderboardMethod, str] = {
    "am-elo": "Estimates scores and annotators' abilities together: able annotators weigh more.",
    "m-elo": "Bradley-Terry on the same votes: every annotator weighs the same.",
    "m-elo-all": "Bradley-Terry on every vote, also those of annotators who do not count.",
    "elo": "The classic update after every vote, averaged over random orders of the same votes.",
}
"""What each method does, in a sentence."""


@dataclass(frozen=True)
class ShownLeaderboard:
    """A published leaderboard as the page shows it. It never changes.

    Attributes
    ----------
    votes : how many votes count in it
    about : what the method does, and what modelling annotators moves
    enough : whether the votes are enough to know the best model; None where nothing says so
    methods, tags : the snapshot's other leaderboards
    made : whether an organization or a licence is known
    other : the method that is shown beside; None where the snapshot does not have it
    before : number of the snapshot that `change` compares with
    """

    published: PublishedLeaderboard
    rows: tuple[Row, ...]
    votes: int
    verdict: str
    enough: str | None
    about: str
    axis: Axis | None
    methods: tuple[LeaderboardMethod, ...]
    tags: tuple[str, ...]
    made: bool
    other: LeaderboardMethod | None
    before: int | None


# A leaderboard may be sorted and searched in many ways, each a page of its own. The key names everything in it.
@cached(LRUCache(8), key=lambda _, version: version.key, lock=Lock())
def show_leaderboard(conn: Connection, version: LeaderboardVersion) -> ShownLeaderboard:
    """Read a leaderboard and draw its rows.

    Raises
    ------
    NoSuchLeaderboardError
    """
    method, tag = version.method, version.tag or ""
    kept = list_leaderboards(conn, version.snapshot.id)
    here = [one for one in METHODS if (one, tag) in kept]
    other = _compared_with(method) if _compared_with(method) in here else None
    published = read_published(conn, replace(version, compare=(other,) if other else ()))
    models = published.models
    before, changes = _changes(conn, version, models)
    axis, draw = Axis.of(models), templates.get_template("leaderboard/row.html").module.row  # type: ignore[attr-defined]
    rows = [
        Row(model, changes.get(model.model), other and model.compared.get(other), axis.draw(model) if axis else None)
        for model in models
    ]
    all_counted = method != "m-elo-all" and not tag
    votes = version.snapshot.votes_used if all_counted else sum(model.votes for model in models) // 2
    return ShownLeaderboard(
        published=published,
        rows=tuple(replace(row, html=Markup(draw(row))) for row in rows),  # noqa: S704  a template's
        votes=votes,
        verdict=describe_verdict(models, votes),
        enough=find_sentence(conn, version.snapshot, version.tag) if method == "am-elo" else None,
        about=f"{_ABOUT[method]} {_describe_difference(models, method) if other else ''}",
        axis=axis,
        methods=tuple(one for one in METHODS if (one, "") in kept),
        tags=tuple(name for one, name in kept if one == "am-elo" and name),
        made=any(model.organization or model.license for model in models),
        other=other,
        before=before,
    )


def _changes(
    conn: Connection, version: LeaderboardVersion, models: Sequence[LeaderboardRow]
) -> tuple[int | None, dict[str, RowChange]]:
    """Return each model's change since the snapshot before, and that snapshot's number; None if it has no such one."""
    earlier = list_snapshots(conn, limit=1, before=version.snapshot.number)
    if not earlier:
        return None, {}
    rows = list_placed_models(conn, earlier[0]["id"], version.method, version.tag or "")
    if not rows:
        return None, {}
    old = {row["model"]: LeaderboardRow.model_validate(dict(row)) for row in rows}
    changes = compare_leaderboards(old, {model.model: model for model in models})
    return earlier[0]["number"], {change.model: change for change in changes}


def _compared_with(method: LeaderboardMethod) -> LeaderboardMethod:
    """Return the method that is shown beside another one."""
    return "m-elo" if method == "am-elo" else "am-elo"


def _describe_difference(models: Sequence[LeaderboardRow], method: LeaderboardMethod) -> str:
    """Return in a sentence how many models modelling annotators moves, and which one the farthest."""
    other = _compared_with(method)
    beside = method_name("m-elo" if method == "am-elo" else method)
    moves = []
    for model in models:
        place = model.compared.get(other)
        if place is None or place.rank is None or model.rank is None:
            continue
        without, modelled = (place.rank, model.rank) if method == "am-elo" else (model.rank, place.rank)
        moves.append((without, modelled, model.model))
    moved = [move for move in moves if move[0] != move[1]]
    if not moves:
        return ""
    if not moved:
        return f"Modelling annotators moves no model: am-ELO has the order of {beside}."
    without, modelled, name = max(moved, key=lambda move: (abs(move[0] - move[1]), -move[1]))
    return (
        f"Compared with {beside}, modelling annotators moves {plural(len(moved), 'model')} of {len(moves):,}; "
        f"the farthest is {name}, from rank {without} to {modelled}."
    )
