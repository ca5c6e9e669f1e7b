"""A model's page."""

from collections.abc import Iterator
from typing import Annotated, Any

from fastapi import Query, Request, Response
from fastapi.responses import RedirectResponse

from app.api.dependencies import ReadView
from app.errors import NotFoundError
from app.leaderboard.groups import ModelGroups, list_groups
from app.leaderboard.matchups import FEWEST_VOTES
from app.leaderboard.model_page import HeadToHead, ModelDetail, Neighbour, describe_model
from app.models.service import find_contestant, find_model, suggest_models
from app.pages.charts import draw_band
from app.pages.formatting import METHODS, model_address, moment
from app.pages.rendering import public_router, render
from app.snapshots.queries import newest_snapshot
from app.snapshots.schemas import AskedMethod, LeaderboardMethod
from app.wording import plural, points

router = public_router()


# Names may hold slashes, as in meta-llama/Llama-3: `path` takes them.
@router.get("/models/{name:path}")
def get_model(
    request: Request,
    name: str,
    conn: ReadView,
    in_query: Annotated[str | None, Query(alias="name")] = None,  # a name that cannot stand in the path
    method: AskedMethod = "am-elo",
) -> Response:
    """Show a model: its place, its score over time, its results against each other model.

    The page of a merged model leads to that of the model for which its votes count.
    """
    asked = name or in_query or ""
    try:
        named = find_model(conn, asked, public=True)
    except NotFoundError:
        similar = suggest_models(conn, asked)
        if not similar:
            raise
        return render(request, "model/unknown.html", status=404, asked=asked, similar=similar)
    contestant = find_contestant(conn, named.name, public=True)
    if contestant.model_id != named.model_id:  # for the time being: a merge may be taken back
        return RedirectResponse(f"{model_address(contestant.name)}", status_code=307)
    model, newest = describe_model(conn, contestant, method), newest_snapshot(conn)
    groups = {} if newest is None else list_groups(conn, newest["id"])
    return render(request, "model/page.html", **view_model(model, method, groups))


def view_model(model: ModelDetail, method: LeaderboardMethod, groups: ModelGroups) -> dict[str, Any]:
    """Return what the template shows of a model. Places are standings with their groups, and whether there is no other.

    `groups`: of every leaderboard of the newest snapshot.
    """
    by_name = {one.opponent: one for one in model.head_to_head}
    places = []
    for one in sorted(model.standings, key=lambda one: (one.tag or "", list(METHODS).index(one.method))):
        kept = groups[one.method, one.tag or ""]
        own = next(group for group in kept if group.number == one.component + 1)
        places.append((one, own, len(kept) == 1))
    met = [one for one in model.head_to_head if one.votes >= FEWEST_VOTES]
    scored = sum(one.score is not None for one in model.chart)
    return {
        "model": model,
        "method": method,
        "here": next((place for place in places if place[0].method == method and place[0].tag is None), None),
        "categories": [place for place in places if place[0].method == "am-elo" and place[0].tag is not None],
        "chart": draw_band([(one.score, one.lower, one.upper) for one in model.chart]) if scored > 1 else None,
        "chart_label": describe_chart(model, method),
        "stability": list(describe_stability(model)),
        "opponents": sorted(met, key=_strength),
        "others": sorted((one for one in model.head_to_head if one not in met), key=_strength),
        "best": [by_name[name] for name in model.best_opponents if by_name[name] in met],
        "worst": [by_name[name] for name in model.worst_opponents if by_name[name] in met],
    }


def describe_chart(model: ModelDetail, method: LeaderboardMethod) -> str:
    """Describe the chart in a sentence."""
    scored = [one for one in model.chart if one.score is not None]
    if not scored:
        return "No snapshot has a score."
    first, last = scored[0], scored[-1]
    return (
        f"{METHODS[method]} score of {model.name} in {plural(len(scored), 'snapshot')}: from {points(first.score)} in "
        f"snapshot {first.number} ({moment(first.published_at)}) to {points(last.score)} in snapshot {last.number} "
        f"({moment(last.published_at)})."
    )


def describe_stability(model: ModelDetail) -> Iterator[tuple[str, str]]:
    """Return each neighbour's name and how few changes of votes would swap the two, in a sentence."""
    for neighbour, side in ((model.above, "above"), (model.below, "below")):
        if neighbour is not None:
            yield neighbour.model, _describe_gap(neighbour, side)


def _describe_gap(neighbour: Neighbour, side: str) -> str:
    far = f"is {points(neighbour.gap, 1)} points {side}."
    if neighbour.votes is None:
        return f"{far} No small number of votes is known to swap the two."
    swap = f"{far} Without about {plural(neighbour.votes, 'vote')} the two would swap"
    others = [
        f"{before} {plural(count, what)}{after}"
        for before, count, what, after in (
            ("with", neighbour.flipped_votes, "vote", " turned round"),
            ("with", neighbour.added_votes, "more vote", ""),
            ("without", neighbour.annotators, "annotator", ""),
            ("without", neighbour.prompts, "prompt", ""),
        )
        if count is not None
    ]
    if others:
        swap += f", or {', or '.join(others)}"
    return f"{swap}."


def _strength(one: HeadToHead) -> tuple[bool, float, str]:
    """Order opponents from the strongest, by the prediction; those without one come last."""
    return one.predicted is None, one.predicted or 0.0, one.opponent
