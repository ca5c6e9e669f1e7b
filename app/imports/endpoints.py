import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import TypeAdapter

from app.auth.callers import Caller
from app.database.engine import Database
from app.database.file_chunks import CHUNK_BYTES
from app.database.timestamps import StorableTimestamp
from app.errors import BadInputError, FieldError
from app.http.bodies import takes_body
from app.http.dependencies import ProcessServices, ReadView, require, services_of
from app.http.errors import MediaTypeError
from app.http.pagination import Cursor, Page, PageSize, paginate, read_cursor
from app.http.problems import problem_responses
from app.imports import service as imports
from app.imports.formats.days import DayOrder
from app.imports.formats.schemas import find_schema
from app.imports.formats.schemas.renamed import read_columns
from app.imports.schemas import Import, ImportDetails
from app.imports.service import ImportOptions
from app.imports.upload import MAX_FILE_NAME_LENGTH, Upload, kind_of_name
from app.naming.names import name_error

router = APIRouter(prefix="/imports", tags=["imports"])

MEDIA_TYPES = {
    "text/csv": "csv",
    "text/tab-separated-values": "tsv",
    "application/json": "json",
    "application/csv": "csv",
    "application/jsonl": "jsonl",
    "application/x-ndjson": "jsonl",
    "application/x-jsonlines": "jsonl",
    "application/vnd.apache.parquet": "parquet",
    "application/x-parquet": "parquet",
}

_ANY_KIND = "application/octet-stream"
"""Sent by generated clients; the kind of the file is then that of `filename` or `format`."""

_Position = TypeAdapter(tuple[StorableTimestamp, UUID])


def _options(
    schema: Annotated[
        str | None, Query(description="Name of the file's format; by default it is detected from the columns.")
    ] = None,
    annotator_column: Annotated[
        str | None,
        Query(description="Column with the annotator; by default annotator, judge, user_id and similar names."),
    ] = None,
    pool_annotators: Annotated[
        bool, Query(description="Treat all votes as those of one annotator, named pooled.")
    ] = False,
    skip_invalid: Annotated[bool, Query(description="Leave out invalid records instead of refusing the file.")] = False,
    again: Annotated[bool, Query(description="Import the file even if it was imported before.")] = False,
    new_rows_only: Annotated[
        bool, Query(description="Leave out the votes that are on record already, by what they say.")
    ] = False,
    allow_repeats: Annotated[
        bool, Query(description="Record votes that say the same as votes on record too, as further votes.")
    ] = False,
    columns: Annotated[
        str | None,
        Query(max_length=2000, description="Columns with other names, as `winner=Label,model_a=First`."),
    ] = None,
    annotator_prefix: Annotated[
        str, Query(max_length=100, description="Put before every annotator, so that those of two studies stay apart.")
    ] = "",
    dates: Annotated[
        DayOrder | None,
        Query(description="Order of day and month in dates such as 1/2/2026; by default what the file shows."),
    ] = None,
    dry_run: Annotated[
        bool,
        Query(description="Check and count the records without storing them; counts that need stored votes are null."),
    ] = False,
) -> ImportOptions:
    if schema is not None:
        find_schema(schema)
    if annotator_column is not None and "\x00" in annotator_column:
        raise BadInputError("/annotator_column: must not contain the character U+0000")
    if columns is not None:
        read_columns(columns)
    if annotator_prefix and (fault := name_error(f"{annotator_prefix}x")):
        raise BadInputError(f"/annotator_prefix: {fault}")
    if pool_annotators and annotator_column is not None:
        raise BadInputError("pool_annotators and annotator_column exclude each other")
    return ImportOptions(
        schema=schema,
        annotator_column=annotator_column,
        pool_annotators=pool_annotators,
        skip_invalid=skip_invalid,
        again=again,
        dry_run=dry_run,
        new_rows_only=new_rows_only,
        allow_repeats=allow_repeats,
        columns=columns,
        annotator_prefix=annotator_prefix,
        dates=dates,
    )


@router.post(
    "",
    status_code=202,
    responses={
        200: {"model": Import, "description": "The same file was imported before."},
        **problem_responses(401, 403, 413, 415, 422, 503),
    },
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {kind: {"schema": {"type": "string", "format": "binary"}} for kind in (_ANY_KIND, *MEDIA_TYPES)},
        }
    },
)
@takes_body(lambda settings: settings.imports.max_bytes, streamed=True)
async def post_import(
    request: Request,
    response: Response,
    caller: Annotated[Caller, require("ingest")],
    services: ProcessServices,
    options: Annotated[ImportOptions, Depends(_options)],
    filename: Annotated[
        str, Query(min_length=1, max_length=MAX_FILE_NAME_LENGTH, description="Name of the file.")
    ] = "upload",
    format: Annotated[  # noqa: A002  the parameter's public name
        Literal["csv", "tsv", "json", "jsonl", "parquet"] | None,
        Query(description="Kind of the body; by default detected from `filename`, then from Content-Type."),
    ] = None,
) -> Import:
    """Import a file of votes.

    The body is the file: CSV, TSV, JSON or JSON lines (all also compressed with gzip or zstd) or Parquet, in any format
    that the documentation lists. 202 means that the whole file was received. A worker then checks every record and
    stores the votes; `Location` shows its progress. A file with the SHA-256 of an earlier one answers 200 with the
    earlier import, and continues it if it was interrupted. A file whose votes are mostly on record fails, with
    `new_rows_only` and `allow_repeats` as the way out.

    Needs scope `ingest`. Problems: `not-authenticated`, `scope-missing`; `body-too-large`; `media-type` where the kind
    of the body is unknown; `invalid`; `database-unreachable`, `database-busy`: send it again later.
    """
    if fault := name_error(filename):
        raise BadInputError(f"filename {fault}", (FieldError("/filename", fault),))
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    kind = format or kind_of_name(filename) or MEDIA_TYPES.get(media_type)
    if kind is None:
        raise MediaTypeError(
            f"unknown kind of body: set Content-Type to one of {', '.join(MEDIA_TYPES)}, or ?format= or ?filename="
        )
    upload = Upload(services.database, file_name=filename, kind=kind, options=options, requested_by=caller.name)
    import_id, is_new = await _receive(request, upload)
    response.headers["Location"] = request.app.url_path_for("get_import", import_id=str(import_id))
    response.status_code = 202 if is_new else 200
    return await asyncio.to_thread(_find, services.database, import_id)


async def _receive(request: Request, upload: Upload) -> tuple[UUID, bool]:
    """Receive the body; if that fails, delete the pieces."""
    slots = services_of(request).request_slots
    try:
        async for piece in _pieces(request):
            async with slots:  # held while a piece is written, not while the next one arrives
                await asyncio.to_thread(upload.write, piece)
        async with slots:
            return await asyncio.to_thread(upload.finish)
    except BaseException:
        await asyncio.shield(asyncio.to_thread(upload.abandon))
        raise


async def _pieces(request: Request) -> AsyncIterator[bytes]:
    waiting = bytearray()
    async for piece in request.stream():
        waiting += piece
        while len(waiting) >= CHUNK_BYTES:
            yield bytes(waiting[:CHUNK_BYTES])
            del waiting[:CHUNK_BYTES]
    if waiting:
        yield bytes(waiting)


def _find(database: Database, import_id: UUID) -> Import:
    with database.read() as conn:
        return Import(**imports.find_import(conn, import_id).model_dump())


@router.get("", dependencies=[require("ingest", "read")], responses=problem_responses(401, 403, 422, 503))
def list_imports(conn: ReadView, limit: PageSize = 50, cursor: Cursor = None) -> Page[Import]:
    """List imports, the newest first.

    Needs scope `ingest` or `read`. Problems: `not-authenticated`, `scope-missing`; `invalid` for an unknown cursor.
    """
    items = imports.list_imports(conn, limit=limit + 1, before=read_cursor(cursor, _Position))
    return paginate(items, limit, lambda last: (last.created_at, last.id))


@router.get(
    "/{import_id}",
    dependencies=[require("ingest", "read")],
    responses=problem_responses(401, 403, 404, 422, 503),
)
def get_import(import_id: UUID, conn: ReadView) -> ImportDetails:
    """Show the progress of an import, its counts, and its first errors.

    Needs scope `ingest` or `read`. Problems: `not-authenticated`, `scope-missing`, `not-found`.
    """
    return imports.find_import(conn, import_id)


@router.get(
    "/{import_id}/errors",
    dependencies=[require("ingest", "read")],
    response_class=StreamingResponse,
    responses={
        200: {"content": {kind: {"schema": {"type": "string"}} for kind in ("text/csv", "application/x-ndjson")}},
        **problem_responses(401, 403, 404, 422, 503),
    },
)
def get_import_errors(
    import_id: UUID,
    conn: ReadView,
    services: ProcessServices,
    format: Annotated[Literal["csv", "jsonl"], Query()] = "csv",  # noqa: A002  the parameter's public name
) -> StreamingResponse:
    """Download the errors in the records of a file.

    One line for each record: number, place, `invalid` or `conflict`, and the reason; at most 100,000. Annotators are
    not named. Needs scope `ingest` or `read`. Problems: `not-authenticated`, `scope-missing`, `not-found`.
    """
    imports.find_import(conn, import_id)
    media_type = "text/csv; charset=utf-8" if format == "csv" else "application/x-ndjson"
    name = f"import-{import_id}-errors.{format}"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(
        imports.error_lines(services.database, import_id, format), media_type=media_type, headers=headers
    )
