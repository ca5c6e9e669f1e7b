"""Leaderboards ready to be shown, by group."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, get_args

from sqlalchemy import Connection

from app.leaderboard.confidence import Outlook, find_outlook
from app.leaderboard.diff.schemas import RowChange
from app.leaderboard.diff.service import compare_leaderboards
from app.leaderboard.groups import ModelGroup, ModelGroups, choose_group, list_groups
from app.leaderboard.schemas import LeaderboardRow, PublishedLeaderboard, Whose
from app.leaderboard.service import read_published
from app.leaderboard.verdict import LeaderVerdict, describe_verdict
from app.models.queries import list_facts
from app.pages.formatting import SHOWN_METHODS, dimension_name, method_name, tag_name
from app.pages.leaderboard.rows import Axis, Row
from app.pages.leaderboard.selection import Board
from app.pages.plots import FrontPlot, draw_front
from app.rating.settings import SIDE
from app.snapshots.differences import Differences, read_differences
from app.snapshots.queries import list_placed_models, list_snapshots
from app.snapshots.schemas import LeaderboardMethod, SnapshotHead
from app.snapshots.units import account_votes, describe_counted
from app.wording import change, listed, plural, points

_ABOUT: dict[LeaderboardMethod, str] = {
    "am-elo": "Estimates scores and annotators' abilities together: able annotators weigh more.",
    "m-elo": "Bradley-Terry on the same votes: every annotator weighs the same.",
    "m-elo-all": "Bradley-Terry on every vote, also those of annotators who do not count.",
    "elo": "The classic update after every vote, averaged over random orders of the same votes.",
    "people": "The votes of people alone.",
    "judges": "The votes of LLM judges alone, each with a lean to a side.",
    "all": "The votes of people and of LLM judges together.",
    "people+judges": "The people's scores, known better by what judges say of their battles and of others.",
    "style": "The scores of answers that differ in none of the features that the policy names.",
    "weighted": "All categories of a dimension, or criteria, together, each with the weight that the policy gives it.",
}
"""What each method does, in a sentence."""


@dataclass(frozen=True)
class ShownLeaderboard:
    """A published leaderboard as the page shows it.

    Attributes
    ----------
    rows : the models of all groups
    groups, group : the models that votes link, and those that are shown
    votes, more_votes : how many votes count in the group, and how many more than in the snapshot before
    differences : between the models; None where the snapshot does not have them
    outlook : whether the votes are enough to know the best model; None where nothing says so, as of a category, which
        has much of its scores from other votes
    about : what the method does, and what modelling annotators moves
    methods : those of the snapshot, and whether each has this group
    tags : the tags that have a leaderboard and name no group, by the dimension that they are categories of
    made : whether an organization or a licence is known
    other : the method that is shown beside another than am-ELO; None where the snapshot does not have it
    before : number of the snapshot that `change` compares with
    dated, priced : scores of the group by the models' days of release and prices; None where too few are known
    """

    published: PublishedLeaderboard
    rows: tuple[Row, ...]
    groups: Sequence[ModelGroup]
    group: ModelGroup
    votes: int
    more_votes: int
    differences: Differences | None
    verdict: LeaderVerdict
    outlook: Outlook | None
    about: str
    axis: Axis | None
    methods: Mapping[LeaderboardMethod, bool]
    tags: Mapping[str, Sequence[str]]
    made: bool
    other: LeaderboardMethod | None
    before: int | None
    dated: FrontPlot[date] | None
    priced: FrontPlot[float] | None

    @property
    def counted(self) -> str:
        """How many votes count in the snapshot, in all groups."""
        snapshot = self.published.snapshot
        return describe_counted(snapshot.votes_used, snapshot.votes_read, self.published.diagnostics.get("rankings"))

    @property
    def account(self) -> list[tuple[int, str]]:
        """How the votes on record count in the snapshot, in all groups."""
        return account_votes(self.published.diagnostics)

    @property
    def prompts(self) -> str:
        """How many prompts stand behind the main leaderboard, and what hangs on them; empty where that is not known."""
        published = self.published
        known = published.method == "am-elo" and not published.tag
        return describe_prompts(published.diagnostics) if known else ""

    def differences_of(self, row: Row, rows: Sequence[Row]) -> tuple[str, str] | None:
        """Return what a model is beside all others, in words, and beside `rows`, in digits; None where unknown."""
        if self.differences is None or row.model.class_rank is None:
            return None
        name, others = row.model.model, [other.model.model for other in rows]
        return self.differences.describe(name), self.differences.digits(name, others)

    @property
    def label(self) -> str:
        """What stands before the headline where there are other groups or categories."""
        names = [tag_name(self.published.tag or ""), self.group.name if len(self.groups) > 1 else ""]
        return "".join(f"{name}: " for name in names if name)


def show_leaderboard(conn: Connection, snapshot: SnapshotHead, board: Board) -> ShownLeaderboard:
    """Read a leaderboard of a snapshot, and choose one of its groups.

    Raises NoSuchLeaderboardError.
    Raises NotFoundError: it has no such group.
    """
    method, tag = board.method, board.tag
    kept = list_groups(conn, snapshot.id)
    other: LeaderboardMethod | None = "am-elo" if method != "am-elo" and ("am-elo", tag) in kept else None
    published = read_published(conn, snapshot, method, tag, (other,) if other else ())
    groups = [one for one in kept[method, tag] if one.models] or kept[method, tag]  # or all are archived
    group = choose_group(groups, board.group)
    before, changes = _changes(conn, published)
    models = {one.number: [row for row in published.models if row.component + 1 == one.number] for one in groups}
    axes = {number: Axis.of(rows) for number, rows in models.items()}
    rows = tuple(
        Row(
            model,
            one,
            changes.get(model.model),
            model.compared.get(other) if other else None,
            axis.draw(model) if (axis := axes[one.number]) else None,
        )
        for one in groups
        for model in models[one.number]
    )
    shown, differences = models[group.number], read_differences(conn, snapshot.id, method, tag)
    facts = list_facts(conn)
    known = [(one, *facts[one.model]) for one in shown if one.model in facts]
    votes = sum(model.votes for model in shown) // 2
    if len(groups) == 1 and method in ("am-elo", "m-elo", "elo") and not tag:
        votes = snapshot.votes_used
    more = sum(one.votes_after - one.votes_before for one in map(changes.get, (row.model for row in shown)) if one) // 2
    return ShownLeaderboard(
        published=published,
        rows=rows,
        groups=groups,
        group=group,
        votes=votes,
        more_votes=more,
        differences=differences,
        verdict=describe_verdict(shown, votes, differences),
        outlook=find_outlook(conn, snapshot, published.tag, group.number - 1)
        if method == "am-elo" and not published.about_category
        else None,
        about=f"{_ABOUT[method]} {_describe_more(published, shown, other)}",
        axis=axes[group.number],
        methods={
            one: any(each.key == group.key for each in kept[one, ""]) for one in SHOWN_METHODS if (one, "") in kept
        },
        tags=_tags(kept, tag),
        made=any(model.organization or model.license for model in published.models),
        other=other,
        before=before,
        dated=draw_front(
            [(one.model, one.score, day) for one, day, _ in known if one.score is not None and day], date.toordinal
        ),
        priced=draw_front(
            [(one.model, one.score, price) for one, _, price in known if one.score is not None and price], math.log
        ),
    )


def describe_prompts(diagnostics: Mapping[str, Any]) -> str:
    """Return in sentences how many prompts votes are on, and what hangs on them; empty where that is not known."""
    prompts, share = diagnostics.get("prompts"), diagnostics.get("prompt_share")
    if prompts is None:
        return ""
    said = f"The votes are on {plural(prompts, 'prompt')}."
    if share is not None:
        said += f" Which ones they are makes {100 * share:.0f} % of the variance of the scores."
    if any(notice["code"] == "few-prompts" for notice in diagnostics["warnings"]):
        said += " More prompts help more than more votes."
    first = next((one.get("prompts") for one in diagnostics.get("fragility_of_best") or () if one["k"] == 1), None)
    return said if first is None else f"{said} First place hangs on {first:,} of {plural(prompts, 'prompt')}."


def _tags(kept: ModelGroups, chosen: str) -> dict[str, list[str]]:
    """Return the tags that name no group, and the chosen one, by dimension; those of none first."""
    names = {group.tag for group in kept.get(("am-elo", ""), [])}
    tags = {tag for method, tag in kept if method == "am-elo" and tag and tag not in names} | ({chosen} - {""})
    found: dict[str, list[str]] = {}
    for tag in sorted(tags, key=lambda tag: (dimension_name(tag), tag_name(tag))):
        found.setdefault(dimension_name(tag), []).append(tag)
    return found


def _changes(conn: Connection, published: PublishedLeaderboard) -> tuple[int | None, dict[str, RowChange]]:
    """Return each model's change since the snapshot before, and that snapshot's number; None if it has no such one."""
    earlier = list_snapshots(conn, limit=1, before=published.snapshot.number)
    if not earlier:
        return None, {}
    rows = list_placed_models(conn, earlier[0]["id"], published.method, published.tag or "")
    if not rows:
        return None, {}
    old = {row["model"]: LeaderboardRow.model_validate(dict(row)) for row in rows}
    changes = compare_leaderboards(old, {model.model: model for model in published.models})
    return earlier[0]["number"], {change.model: change for change in changes}


def _describe_more(
    published: PublishedLeaderboard, shown: Sequence[LeaderboardRow], other: LeaderboardMethod | None
) -> str:
    """Return how a category is rated, what features are worth with style control, else what modelling annotators moves.

    Those of people and of judges are of other votes than the main one, and the weighted one models annotators too.
    """
    if published.about_category:
        return published.about_category
    style = published.diagnostics.get("style", {})
    if published.method == "style":
        return _describe_style(style)
    liked = [row["feature"] for row in style.get("features", ()) if row["feature"] != SIDE]
    if published.method == "judges" and liked:
        return f"What each likes is taken out too: {listed(liked, len(liked))}."
    if published.method == "people+judges":
        return _describe_sharpened(published.diagnostics["sharpened"])
    alike = published.method in ("weighted", *get_args(Whose))
    return _describe_difference(shown, published.method) if other and not alike else ""


def _describe_sharpened(about: Mapping[str, Any]) -> str:
    votes, worth, saw = about["people_votes"], about["people_votes_worth"], about["people_battles"]
    weighed = ", by inverse propensities," if about["by_propensity"] else ""
    return (
        f"The {plural(votes, 'vote')} of people count like {worth:,}, if people's battles, {saw:,} of the "
        f"{about['judged_battles']:,} that judges saw, are a random part{weighed} of these. No test says otherwise."
    )


def _describe_style(style: Mapping[str, Any]) -> str:
    worth = [
        ("the left side " if row["feature"] == SIDE else f"one standard deviation more of {row['feature']} ")
        + change(row["points"])
        + (f" ({points(row['lower'])} to {points(row['upper'])})" if row["lower"] is not None else "")
        for row in style.get("features", ())
    ]
    left_out = style.get("left_out", 0)
    line = f"Worth to typical annotators, in Elo points: {listed(worth, len(worth))}."
    return f"{line} Left out: {plural(left_out, 'vote')} that lack a feature." if left_out else line


def _describe_difference(models: Sequence[LeaderboardRow], method: LeaderboardMethod) -> str:
    """Return in a sentence how many models modelling annotators moves, and which one the farthest."""
    beside = method_name(method)
    moves = [
        (model.rank, place.rank, model.model)
        for model in models
        if (place := model.compared.get("am-elo")) and place.rank is not None and model.rank is not None
    ]
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
