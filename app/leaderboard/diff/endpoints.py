from typing import Annotated

from fastapi import APIRouter, Query

from app.api.dependencies import OptionalReader, ReadView
from app.api.kept_answers import PublicRoute
from app.api.problems import problem_responses
from app.leaderboard.diff.schemas import SnapshotDiff
from app.leaderboard.diff.service import compare_snapshots
from app.snapshots.schemas import LeaderboardMethod

router = APIRouter(tags=["leaderboard"], route_class=PublicRoute)


@router.get("/snapshots/{before}/diff/{after}", responses=problem_responses(404))
def get_diff(
    before: str,
    after: str,
    _reader: OptionalReader,
    conn: ReadView,
    method: Annotated[LeaderboardMethod, Query(description="Which of the snapshots' leaderboards.")] = "am-elo",
) -> SnapshotDiff:
    """Compare two snapshots, named by id or number: which models moved, how far, and what changed between the two.

    The answer has numbers and sentences. Public, unless the service is set to require scope `read`. Problems:
    `not-found`, `no-such-board` where a snapshot has no leaderboard of the method, `invalid` for an unknown method.
    """
    return compare_snapshots(conn, before, after, method=method)
