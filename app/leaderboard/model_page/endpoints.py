from typing import Annotated

from fastapi import APIRouter, Query

from app.http.dependencies import ReadView, require
from app.http.problems import problem_responses
from app.leaderboard.model_page.schemas import ModelDetail
from app.leaderboard.model_page.service import describe_model
from app.models.service import find_model
from app.snapshots.schemas import LeaderboardMethod

router = APIRouter(tags=["models"])


# Names may hold slashes, as in meta-llama/Llama-3: `path` takes them.
@router.get("/models/{name:path}", dependencies=[require("read")], responses=problem_responses(401, 403, 404, 422, 503))
def get_model(
    name: str,
    conn: ReadView,
    method: Annotated[
        LeaderboardMethod, Query(description="Which leaderboard `newest`, `history` and `chart` are from.")
    ] = "am-elo",
) -> ModelDetail:
    """Show a model, by its name or an alias: scores, history, results against each other model, other names.

    The answer has the model's place on every leaderboard of the newest snapshot, its earlier places, its results
    against each other model in the votes that this snapshot counts, and how few votes would swap it with its
    neighbours. Needs scope `read`. Problems: `not-authenticated`, `scope-missing`, `not-found`; `invalid` for an
    unknown method.
    """
    return describe_model(conn, find_model(conn, name), method)
