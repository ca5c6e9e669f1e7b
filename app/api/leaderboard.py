from typing import Annotated, Literal

from fastapi import APIRouter, Header, Query, Response
from pydantic import AwareDatetime

from app.api.dependencies import OptionalReader, ReadView
from app.api.problems import problem_responses
from app.arena.leaderboard import Leaderboard, choose_leaderboard, read_leaderboard
from app.arena.row_files import rows_csv
from app.rating.results import Method

router = APIRouter(tags=["leaderboard"])


@router.get(
    "/leaderboard",
    response_model=Leaderboard,
    responses={
        200: {"content": {"text/csv": {"schema": {"type": "string"}}}},
        304: {"description": "The leaderboard is still the one that `If-None-Match` names."},
        **problem_responses(401, 403, 404, 422, 503),
    },
)
def get_leaderboard(
    _reader: OptionalReader,
    conn: ReadView,
    snapshot: Annotated[str | None, Query(description="Id or number of a snapshot; the newest by default.")] = None,
    as_of: Annotated[AwareDatetime | None, Query(description="The board in force at this moment.")] = None,
    method: Annotated[Method, Query(description="Which of the snapshot's boards.")] = "am-elo",
    format: Annotated[Literal["json", "csv"], Query()] = "json",  # noqa: A002  the parameter's public name
    if_none_match: Annotated[str | None, Header()] = None,
) -> Response:
    """Show the leaderboard.

    The newest one, the one in force `as_of` a moment, or the one of a `snapshot` (which wins over `as_of`). An `ETag`
    changes with the board and with the number of votes not in it yet; `If-None-Match` is answered 304 while it is the
    same. Public, unless the service is set to require scope `read`. Problems: `no-snapshot` before the first
    publication, `not-found` for an unknown snapshot, `invalid` for a method or moment that cannot be read.
    """
    version = choose_leaderboard(conn, method=method, snapshot=snapshot, as_of=as_of)
    tag = f'"{version.tag}-{format}"'
    headers = {"ETag": tag, "Cache-Control": "no-cache"}
    if _matches(if_none_match, tag):
        return Response(status_code=304, headers=headers)
    board = read_leaderboard(conn, version)
    if format == "csv":
        return Response(rows_csv(board.rows()), media_type="text/csv; charset=utf-8", headers=headers)
    return Response(board.model_dump_json(), media_type="application/json", headers=headers)


def _matches(if_none_match: str | None, tag: str) -> bool:
    """Whether the header names the tag; proxies may have marked it weak."""
    if if_none_match is None:
        return False
    named = {part.strip().removeprefix("W/") for part in if_none_match.split(",")}
    return tag in named or "*" in named
