from typing import Annotated, cast, get_args

from fastapi import APIRouter, Header, Query, Request, Response
from pydantic import AfterValidator

from app.database.timestamps import Timestamp
from app.errors import BadInputError, FieldError
from app.http.dependencies import OptionalReader, ProcessServices, database_turn
from app.http.etags import tag_matches
from app.http.problems import problem_responses
from app.leaderboard.board_reads import BoardChoice
from app.leaderboard.catalog import ArenaCatalog
from app.leaderboard.service import BoardForm, Leaderboard, LeaderboardVersion
from app.snapshots.methods import BoardMethod

router = APIRouter(tags=["leaderboard"])

MEDIA_TYPES: dict[BoardForm, str] = {
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
    "arena-catalog": "application/json",
}


def _known_methods(value: str) -> str:
    methods = get_args(BoardMethod)
    if not set(value.split(",")) <= set(methods):
        raise ValueError(f"must be one or more of {', '.join(methods)}, with commas between")
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
    as_of: Annotated[Timestamp | None, Query(description="The board in force at this moment.")] = None,
    method: Annotated[BoardMethod, Query(description="Which of the snapshot's boards.")] = "am-elo",
    tag: Annotated[str | None, Query(description="Scores from the votes with this tag alone.")] = None,
    compare: Annotated[
        Annotated[str, AfterValidator(_known_methods)] | None,
        Query(
            description="Other boards, with commas between, whose ranks and scores are shown beside.",
            examples=["m-elo,m-elo-all"],
        ),
    ] = None,
    format: Annotated[BoardForm, Query()] = "json",  # noqa: A002  the parameter's public name
    if_none_match: Annotated[str | None, Header()] = None,
) -> Response:
    """Show the leaderboard.

    The newest one, the one in force `as_of` a moment, or the one of a `snapshot`, by one of its methods, of all votes
    or of those with a `tag`, and where it has each model on other boards. An `ETag` changes with what is shown, in JSON
    also with the number of votes not in the board yet, not with its age alone; `If-None-Match` is answered 304 while it
    is the same. `arena-catalog` is JSON of another shape, category to model
    to rating: the category `full` is all votes, the others are tags. Public, unless the service is set to require
    scope `read`. Problems: `no-snapshot` before the first publication, `not-found` for an unknown snapshot,
    `no-such-board` for a method or tag that the snapshot has no board of, `invalid` for a method or moment that cannot
    be read, or both `snapshot` and `as_of`.
    """
    refuse_two_choices(snapshot, as_of)
    others = cast("list[BoardMethod]", compare.split(",")) if compare else []
    choice = BoardChoice(method, tag, tuple(others), snapshot, as_of, format)
    if snapshot is None and as_of is None:
        answer = await services.board_reads.read_newest(choice)
    else:
        async with database_turn(request):
            answer = await services.board_reads.read_past(choice)
    version = answer.version
    headers = {"ETag": version.etag(format), "Cache-Control": "no-cache"}
    if tag_matches(if_none_match, headers["ETag"]):
        return Response(status_code=304, headers=headers)
    if format == "parquet":
        headers["Content-Disposition"] = f'attachment; filename="{_file_name(version)}"'
    return Response(answer.content, media_type=MEDIA_TYPES[format], headers=headers)


def refuse_two_choices(snapshot: str | None, as_of: Timestamp | None) -> None:
    """Check that what was published is named in one way at most: two may mean two snapshots.

    Raises
    ------
    BadInputError
    """
    if snapshot is not None and as_of is not None:
        raise BadInputError("give either snapshot or as_of", (FieldError("/as_of", "does not go with snapshot"),))


def _file_name(version: LeaderboardVersion) -> str:
    """Return a name for a download; a tag may hold what a header or a file's name may not."""
    tag = "".join(c if c.isascii() and c.isalnum() else "-" for c in version.tag or "")[:50]
    return f"leaderboard-{version.snapshot.number}-{version.method}{tag and '-'}{tag}.parquet"
