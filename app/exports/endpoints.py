from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from app.api.dependencies import HeldDatabase, ReadView, Transaction, require
from app.api.problems import problem_responses
from app.auth.callers import Caller
from app.database.file_chunks import read_chunks
from app.errors import ConflictError
from app.exports import service as exports
from app.exports.schemas import Export, ExportRequest

router = APIRouter(prefix="/exports", tags=["exports"])

_MEDIA_TYPES = {
    "csv": "text/csv; charset=utf-8",
    "jsonl": "application/x-ndjson",
    "parquet": "application/vnd.apache.parquet",
}


class ExportNotReadyError(ConflictError):
    """The file is not ready, or making it failed."""

    code = "export-not-ready"
    title = "The export is not ready"


@router.post("", status_code=202, responses=problem_responses(404))
def post_export(
    request: Request,
    response: Response,
    caller: Annotated[Caller, require("review")],
    conn: Transaction,
    body: ExportRequest,
) -> Export:
    """Request a file of votes, annotators or the leaderboard.

    A worker makes the file. Follow `Location` until the state is `done`, then download `…/file`. The file has no
    retracted votes, and annotators have the key that is stored. CSV is safe for spreadsheets: a text that one would
    read as a formula has an apostrophe in front. Files of votes and answers have the codenames of unreleased models.

    Needs scope `review`. Problems: `not-authenticated`, `scope-missing`; `invalid`, also for a filter that does not go
    with what is exported; `not-found`, `no-snapshot`, `no-such-board` where there is no such snapshot, model or
    leaderboard.
    """
    export_id = exports.request_export(conn, body.what, body.format, body.filters, requested_by=caller.name)
    response.headers["Location"] = request.app.url_path_for("get_export", export_id=str(export_id))
    return exports.find_export(conn, export_id)


@router.get("/{export_id}", dependencies=[require("review:read")], responses=problem_responses(404))
def get_export(export_id: UUID, conn: ReadView) -> Export:
    """Show an export's state and, when it is done, exactly which votes were on record.

    Needs scope `review:read`. Problems: `not-authenticated`, `scope-missing`, `not-found`.
    """
    return exports.find_export(conn, export_id)


@router.get(
    "/{export_id}/file",
    dependencies=[require("review:read")],
    response_class=StreamingResponse,
    responses={
        200: {"content": {kind: {"schema": {"type": "string", "format": "binary"}} for kind in _MEDIA_TYPES.values()}},
        **problem_responses(404, 409),
    },
)
def get_export_file(export_id: UUID, conn: ReadView, database: HeldDatabase) -> StreamingResponse:
    """Download an export's file.

    Needs scope `review:read`. Problems: `not-authenticated`, `scope-missing`, `not-found`; `export-not-ready` until it
    is `done`.
    """
    export = exports.find_export(conn, export_id)
    if export.state != "done":
        raise ExportNotReadyError(f"the export is {export.state}" + (f": {export.detail}" if export.detail else ""))
    headers = {
        "Content-Disposition": f'attachment; filename="{export.what}-{export_id}.{export.format}"',
        "Content-Length": str(export.bytes),
    }
    content = read_chunks(database, export_id)
    return StreamingResponse(content, media_type=_MEDIA_TYPES[export.format], headers=headers)
