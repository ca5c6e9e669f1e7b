from typing import Annotated, cast, get_args

from fastapi import APIRouter, Header, Query, Request, Response
from pydantic import AfterValidator

from app.database.timestamps import Timestamp
from app.http.dependencies import OptionalReader, ProcessServices, database_turn
from app.http.problems import problem_responses
from app.leaderboard.responses import refuse_two_choices, respond
from app.leaderboard.schemas import ArenaCatalog, Leaderboard, LeaderboardFormat
from app.leaderboard.service import LeaderboardVersion
from app.snapshots.schemas import LeaderboardMethod

router = APIRouter(tags=["leaderboard"])

_METHODS = ", ".join(get_args(LeaderboardMethod))


def _known_methods(value: str) -> str:
    if not set(value.split(",")) <= set(get_args(LeaderboardMethod)):
        raise ValueError(f"must be one or more of {_METHODS}, separated by commas")
    return value


@router.get(
    "/leaderboard",
    response_model=Leaderboard | ArenaCatalog,
    responses={
        200: {
            "content": {
                "text/csv": {"schema": {"type": "string"}},
                "application/vnd.apache.parquet": {"schema": {"type": "string", "format": "binary"}},
            }
        },
        304: {"description": "The leaderboard is still the one that `If-None-Match` names."},
        **problem_responses(401, 403, 404, 422, 503),
    },
)
async def get_leaderboard(
    _reader: OptionalReader,
    request: Request,
    services: ProcessServices,
    snapshot: Annotated[str | None, Query(description="Id or number of a snapshot; the newest by default.")] = None,
    as_of: Annotated[Timestamp | None, Query(description="The newest snapshot at this time.")] = None,
    method: Annotated[LeaderboardMethod, Query(description="Which of the snapshot's leaderboards.")] = "am-elo",
    tag: Annotated[str | None, Query(description="Scores from only the votes with this tag.")] = None,
    compare: Annotated[
        Annotated[str, AfterValidator(_known_methods)] | None,
        Query(
            description=f"Other methods, separated by commas, whose ranks and scores to show beside: {_METHODS}.",
            examples=["m-elo,m-elo-all"],
        ),
    ] = None,
    format: Annotated[LeaderboardFormat, Query()] = "json",  # noqa: A002  the parameter's public name
    if_none_match: Annotated[str | None, Header()] = None,
) -> Response:
    """Show the leaderboard.

    By default the newest one, by am-elo, of all votes. `snapshot` or `as_of` choose an earlier one. The `ETag` changes
    with the content, but not with `age_seconds` alone; a request whose `If-None-Match` names it is answered 304. The
    format `arena-catalog` is JSON too, category to model to rating: `full` is all votes, and each tag is a category.

    Public, unless the service is set to require scope `read`. Problems: `no-snapshot` before the first publication;
    `not-found` for an unknown snapshot; `no-such-board` where the snapshot has no leaderboard of the method or tag;
    `invalid` for an unknown method or time, or for both `snapshot` and `as_of`.
    """
    refuse_two_choices(snapshot, as_of)
    others = cast("tuple[LeaderboardMethod, ...]", tuple(compare.split(","))) if compare else ()
    cache = services.leaderboards
    if snapshot is None and as_of is None:
        state = await cache.newest()
    else:
        async with database_turn(request):
            state = await cache.past(snapshot, as_of)
    version, content = await cache.read(LeaderboardVersion(state, method, tag or None, others), format)
    return respond(content, format, version.etag(format), if_none_match, _file_name(version))


def _file_name(version: LeaderboardVersion) -> str:
    """Return a file name for a download, with the characters of the tag that are safe in a header."""
    tag = "".join(c if c.isascii() and c.isalnum() else "-" for c in version.tag or "")[:50]
    return f"leaderboard-{version.snapshot.number}-{version.method}{tag and '-'}{tag}"
