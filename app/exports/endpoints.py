from collections.abc import Iterator
from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from app.auth.callers import Caller
from app.database.engine import Database
from app.database.file_chunks import read_chunk
from app.database.timestamps import Timestamp
from app.errors import ConflictError
from app.exports import service as exports
from app.exports.service import Export, Filters, Format, What
from app.http.dependencies import ProcessServices, ReadView, Transaction, require
from app.http.problems import problem_responses
from app.naming.names import name_error
from app.snapshots.schemas import LeaderboardMethod
from app.votes.schemas import Name

router = APIRouter(prefix="/exports", tags=["exports"])

_MEDIA_TYPES = {
    "csv": "text/csv; charset=utf-8",
    "jsonl": "application/x-ndjson",
    "parquet": "application/vnd.apache.parquet",
}


class ExportNotReadyError(ConflictError):
    """The file is not there: it is still being made, or could not be."""

    code = "export-not-ready"
    title = "The export is not ready"


def _usable(name: str) -> str:
    if error := name_error(name):
        raise ValueError(error)
    return name


class ExportFilters(BaseModel):
    """What of it is exported: which votes, annotators or leaderboard; a filter must be one of what is exported."""

    model_config = ConfigDict(extra="forbid")

    since: Timestamp | None = Field(None, description="Votes received from this moment on.")
    until: Timestamp | None = Field(None, description="Votes received before this moment.")
    model: Annotated[Name, AfterValidator(_usable)] | None = Field(
        None, description="Votes on this model, by name or alias."
    )
    standing: Literal["pending", "active", "flagged", "excluded", "trusted"] | None = Field(
        None, description="Annotators of this standing."
    )
    snapshot: Annotated[str, Field(max_length=50)] | None = Field(
        None, description="Id or number: the votes that this snapshot was made of, or its leaderboard."
    )
    method: LeaderboardMethod | None = Field(None, description="The leaderboard by this method; am-elo by default.")
    tag: Annotated[Name, AfterValidator(_usable)] | None = Field(
        None, description="The leaderboard of the votes with this tag."
    )


class ExportRequest(BaseModel):
    """What to export and how."""

    model_config = ConfigDict(extra="forbid")

    what: What
    format: Format = "csv"
    filters: ExportFilters = ExportFilters()


@router.post("", status_code=202, responses=problem_responses(401, 403, 404, 422, 503))
def post_export(
    request: Request,
    response: Response,
    caller: Annotated[Caller, require("review")],
    conn: Transaction,
    body: ExportRequest,
) -> Export:
    """Ask for a file of votes, annotators or the leaderboard.

    A worker makes it; follow `Location` until its state is `done`, then take `…/file`. Retracted votes are left out,
    annotators named by the key that is stored, and CSV made safe for spreadsheets: a text that would be taken for a
    formula has an apostrophe in front.

    Needs scope `review`. Problems: `not-authenticated`, `scope-missing`; `invalid`, also for a filter that does not go
    with what is exported; `not-found`, `no-snapshot`, `no-such-board` for a snapshot, a model or a leaderboard that is
    not there.
    """
    filters = Filters(**body.filters.model_dump())
    export_id = exports.request_export(conn, body.what, body.format, filters, requested_by=caller.name)
    response.headers["Location"] = request.app.url_path_for("get_export", export_id=str(export_id))
    return exports.find_export(conn, export_id)


@router.get("/{export_id}", dependencies=[require("review")], responses=problem_responses(401, 403, 404, 422, 503))
def get_export(export_id: UUID, conn: ReadView) -> Export:
    """Show how far an export is and exactly which votes were on record.

    Needs scope `review`. Problems: `not-authenticated`, `scope-missing`, `not-found`.
    """
    return exports.find_export(conn, export_id)


@router.get(
    "/{export_id}/file",
    dependencies=[require("review")],
    response_class=StreamingResponse,
    responses={
        200: {"content": {kind: {"schema": {"type": "string", "format": "binary"}} for kind in _MEDIA_TYPES.values()}},
        **problem_responses(401, 403, 404, 409, 422, 503),
    },
)
def get_export_file(export_id: UUID, conn: ReadView, services: ProcessServices) -> StreamingResponse:
    """Download an export's file.

    Needs scope `review`. Problems: `not-authenticated`, `scope-missing`, `not-found`; `export-not-ready` until it is
    `done`.
    """
    export = exports.find_export(conn, export_id)
    if export.state != "done":
        raise ExportNotReadyError(f"the export is {export.state}" + (f": {export.detail}" if export.detail else ""))
    headers = {
        "Content-Disposition": f'attachment; filename="{export.what}-{export_id}.{export.format}"',
        "Content-Length": str(export.bytes),
    }
    pieces = _pieces(services.database, export_id)
    return StreamingResponse(pieces, media_type=_MEDIA_TYPES[export.format], headers=headers)


def _pieces(database: Database, export_id: UUID) -> Iterator[bytes]:
    number = 0
    while True:
        with database.read() as conn:
            piece = read_chunk(conn, export_id, number)
        if piece is None:
            return
        yield piece
        number += 1
