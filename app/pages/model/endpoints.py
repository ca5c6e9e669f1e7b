"""A model's page."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from app.api.dependencies import ReadView
from app.api.public_route import PublicRoute
from app.api.sessions import PageReader
from app.leaderboard.model_page import describe_model
from app.models.service import find_contestant, find_model
from app.pages.addresses import model_address
from app.pages.model.view import view_model
from app.pages.rendering import render
from app.snapshots.schemas import LeaderboardMethod

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse, route_class=PublicRoute)


# Names may hold slashes, as in meta-llama/Llama-3: `path` takes them.
@router.get("/models/{name:path}")
def get_model(
    request: Request,
    name: str,
    _reader: PageReader,
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
    model = describe_model(conn, contestant, method)
    return render(request, "model/page.html", **view_model(model, method))
