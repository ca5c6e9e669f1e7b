"""A model's page."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from fastapi import Query, Request, Response
from fastapi.responses import RedirectResponse

from app.api.dependencies import ReadView
from app.leaderboard.groups import Group, Groups, list_groups
from app.leaderboard.model_page import HeadToHead, ModelDetail, Neighbour, Standing, describe_model
from app.models.service import find_contestant, find_model
from app.pages.charts import draw_band
from app.pages.formatting import METHODS, model_address, moment
from app.pages.rendering import public_router, render
from app.snapshots.queries import newest_snapshot
from app.snapshots.schemas import LeaderboardMethod
from app.wording import plural, points

router = public_router()


# Names may hold slashes, as in meta-llama/Llama-3: `path` takes them.
@router.get("/models/{name:path}")
def get_model(
    request: Request,
    name: str,
    conn: ReadView,
    in_query: Annotated[str | None, Query(alias="name")] = None,  # a name that cannot stand in the path
    method: LeaderboardMethod = "am-elo",
) -> Response:
    """Show a model: its place, its score over time, its results against each other model.

    The page of a merged model leads to that of the model for which its votes count.
    """
    named = find_model(conn, name or in_query or "")
    contestant = find_contestant(conn, named.name)
    if contestant.model_id != named.model_id:  # for the time being: a merge may be taken back
        return RedirectResponse(f"{model_address(contestant.name)}", status_code=307)
    model, newest = describe_model(conn, contestant, method), newest_snapshot(conn)
    groups = {} if newest is None else list_groups(conn, newest["id"])
    return render(request, "model/page.html", **view_model(model, method, groups))


def view_model(model: ModelDetail, method: LeaderboardMethod, groups: Groups) -> dict[str, Any]:
    """Return what the template shows of a model.

    `groups`: of every leaderboard of the newest snapshot.
    """
    standings = sorted(model.standings, key=lambda one: (one.tag or "", list(METHODS).index(one.method)))
    places = [_place(one, groups[one.method, one.tag or ""]) for one in standings]
    return {
        "model": model,
        "method": method,
        "here": next(
            (places[at] for at, one in enumerate(standings) if one.method == method and one.tag is None), None
        ),
        "places": places,
        "chart": draw_band([(one.score, one.lower, one.upper) for one in model.chart]),
        "chart_label": describe_chart(model, method),
        "stability": list(describe_stability(model)),
        "opponents": sorted(model.head_to_head, key=_strength),
        "best": _picked(model, model.best_opponents),
        "worst": _picked(model, model.worst_opponents),
    }


def _place(standing: Standing, groups: Sequence[Group]) -> dict[str, Any]:
    """Return a standing among the models that it compares with; `alone` where the leaderboard has no other group."""
    own = next(one for one in groups if one.number == standing.component + 1)
    return {"standing": standing, "group": own, "alone": len(groups) == 1}


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
        )
        if count is not None
    ]
    if others:
        swap += f", or {', or '.join(others)}"
    return f"{swap}: as good as tied." if neighbour.tied else f"{swap}."


def _strength(one: HeadToHead) -> tuple[bool, float, str]:
    """Order opponents from the strongest, by the prediction; those without one come last."""
    return one.predicted is None, one.predicted or 0.0, one.opponent


def _picked(model: ModelDetail, names: list[str]) -> list[HeadToHead]:
    by_name = {one.opponent: one for one in model.head_to_head}
    return [by_name[name] for name in names]
