import hashlib
from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Header, Query, Response
from pydantic import TypeAdapter

from app.database.timestamps import Timestamp
from app.errors import BadInputError, FieldError
from app.http.dependencies import OptionalReader, ProcessServices, ReadView
from app.http.pagination import Cursor, Number, PageSize, paginate, read_cursor
from app.http.problems import problem_responses
from app.leaderboard.matchups import service as matchups
from app.leaderboard.matchups.schemas import MatchupPage
from app.leaderboard.responses import refuse_two_choices, respond
from app.models.service import find_model

router = APIRouter(tags=["leaderboard"])

_Position = TypeAdapter(tuple[UUID, Number, Number])


@router.get(
    "/matchups",
    response_model=MatchupPage,
    responses={
        200: {
            "content": {
                "text/csv": {"schema": {"type": "string"}},
                "application/vnd.apache.parquet": {"schema": {"type": "string", "format": "binary"}},
            }
        },
        304: {"description": "The matchups are still those that `If-None-Match` names."},
        **problem_responses(401, 403, 404, 422, 503),
    },
)
def list_matchups(
    _reader: OptionalReader,
    conn: ReadView,
    services: ProcessServices,
    snapshot: Annotated[str | None, Query(description="Id or number of a snapshot; the newest by default.")] = None,
    as_of: Annotated[Timestamp | None, Query(description="The newest snapshot at this time.")] = None,
    model: Annotated[str | None, Query(description="Only pairs with this model, as model_a.")] = None,
    format: Annotated[Literal["json", "csv", "parquet"], Query()] = "json",  # noqa: A002  the parameter's public name
    limit: PageSize = 50,
    cursor: Cursor = None,
    if_none_match: Annotated[str | None, Header()] = None,
) -> Response:
    """List pairs of models: wins, ties, votes, observed and predicted win rate.

    The votes are those that a snapshot counted. The list has every pair with votes; a leaderboard that is not too large
    also has every pair with a prediction. JSON comes in pages, all from one snapshot. CSV and Parquet are whole and
    ignore `limit` and `cursor`. A request whose `If-None-Match` names the current `ETag` is answered 304.

    Public, unless the service is set to require scope `read`. Problems: `no-snapshot` before the first publication;
    `not-found` for an unknown snapshot or model; `no-matchups` where the snapshot's pairs were deleted; `invalid` for
    an unknown cursor or time, or for both `snapshot` and `as_of`.
    """
    refuse_two_choices(snapshot, as_of)
    position = read_cursor(cursor, _Position) if format == "json" else None
    paged = position is not None and snapshot is None  # the first page chose the snapshot
    version = matchups.choose_matchups(conn, position[0] if paged and position else snapshot, None if paged else as_of)
    if position is not None and position[0] != version.snapshot.id:
        raise BadInputError("the cursor is from another list", (FieldError("/cursor", "is from another snapshot"),))
    model_id = None if model is None else find_model(conn, model).model_id
    key = (version.snapshot.id, version.models_hash, model_id, format)
    digest = hashlib.sha256(repr((*key, limit, position)).encode()).hexdigest()[:32]
    if format == "json":
        found = matchups.list_matchups(
            conn, version.snapshot, model_id=model_id, after=position and position[1:], limit=limit + 1
        )
        page = paginate(found, limit, lambda last: (version.snapshot.id, *last.position))
        shown = MatchupPage(
            snapshot=version.snapshot, items=[one.matchup for one in page.items], next_cursor=page.next_cursor
        )
        content = shown.model_dump_json().encode()
    else:
        content = services.leaderboards.remember(
            ("matchups", *key), lambda: matchups.write_matchups(conn, version.snapshot, format, model_id=model_id)
        )
    return respond(content, format, f'"{digest}"', if_none_match, f"matchups-{version.snapshot.number}")
