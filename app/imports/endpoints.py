import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import PurePath
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import StreamingResponse
from pydantic import TypeAdapter, ValidationError
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException

from app.api.dependencies import HeldDatabase, ReadView, RequestSlots, require
from app.api.pagination import Cursor, Page, PageSize, paginate, read_cursor
from app.api.problems import problem_responses
from app.auth.callers import Caller
from app.database.engine import Database
from app.database.file_chunks import CHUNK_BYTES
from app.database.timestamps import StorableTimestamp
from app.errors import BadInputError, FieldError
from app.guard.bodies import SMALL, takes_body
from app.guard.errors import MediaTypeError
from app.imports import service as imports
from app.imports.parameters import ImportParameters
from app.imports.schemas import Import, ImportDetails
from app.imports.upload import Upload, kind_of_name
from app.state import state_of

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
    "application/zip": "zip",
}

_ANY_KIND = "application/octet-stream"
"""Sent by generated clients; the kind of the file is then that of `filename` or `format`."""

_Position = TypeAdapter(tuple[StorableTimestamp, UUID])


_FORM = "multipart/form-data"
_MAX_FIELDS = 50


def _form_schema() -> dict[str, Any]:
    fields = ImportParameters.model_json_schema()["properties"]
    return {
        "type": "object",
        "required": ["file"],
        "properties": {"file": {"type": "string", "format": "binary"}, **fields},
    }


@router.post(
    "",
    status_code=202,
    responses={200: {"model": Import, "description": "The same file was imported before."}},
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                **{kind: {"schema": {"type": "string", "format": "binary"}} for kind in (_ANY_KIND, *MEDIA_TYPES)},
                _FORM: {"schema": _form_schema()},
            },
        }
    },
)
@takes_body(lambda settings: settings.imports.max_bytes, streamed=True)
async def post_import(
    request: Request,
    response: Response,
    caller: Annotated[Caller, require("ingest")],
    database: HeldDatabase,
    parameters: Annotated[ImportParameters, Query()],
) -> Import:
    """Import a file of votes.

    The body is the file: CSV, TSV, JSON or JSON lines (all also compressed with gzip or zstd) or Parquet, in any format
    that the documentation lists. Or it is a form in parts (`curl -F file=@votes.csv`) with the file as `file`; its
    other fields are parameters, as in the query. 202 means that the whole file was received. A worker then checks every
    record and stores the votes; `Location` shows its progress. A file with the SHA-256 of an earlier one answers 200
    with the earlier import, and continues it if it was interrupted. A file whose votes are mostly on record fails, with
    `new_rows_only` and `allow_repeats` as the way out.

    Needs scope `ingest`. Problems: `not-authenticated`, `scope-missing`; `body-too-large`; `media-type` where the kind
    of the body is unknown; `invalid`; `database-unreachable`, `database-busy`: send it again later.
    """
    if _media_type(request.headers.get("content-type")) == _FORM:
        async with _received_form(request) as (file, given):
            upload = _begin(database, given, _media_type(file.content_type), caller)
            import_id, is_new = await _receive(request, upload, _contents(file))
    else:
        upload = _begin(database, parameters, _media_type(request.headers.get("content-type")), caller)
        import_id, is_new = await _receive(request, upload, request.stream())
    response.headers["Location"] = request.app.url_path_for("get_import", import_id=str(import_id))
    response.status_code = 202 if is_new else 200
    return await asyncio.to_thread(_find, database, import_id)


def _media_type(header: str | None) -> str:
    return (header or "").partition(";")[0].strip().lower()


def _begin(database: Database, parameters: ImportParameters, media_type: str, caller: Caller) -> Upload:
    """Check the parameters and return the upload. Raises BadInputError or MediaTypeError."""
    options, name = parameters.options(), parameters.filename
    kind = parameters.format or kind_of_name(name) or MEDIA_TYPES.get(media_type)
    if kind is None:
        raise MediaTypeError(
            f"unknown kind of body: set Content-Type to one of {', '.join(MEDIA_TYPES)}, or ?format= or ?filename="
        )
    return Upload(database, file_name=name, kind=kind, options=options, requested_by=caller.name)


@asynccontextmanager
async def _received_form(request: Request) -> AsyncIterator[tuple[UploadFile, ImportParameters]]:
    """Receive a form on disk; give its file, and the parameters in its fields and in the query.

    Raises BadInputError or RequestValidationError.
    """
    try:
        form = await request.form(max_files=1, max_fields=_MAX_FIELDS, max_part_size=SMALL)
    except HTTPException as error:
        raise BadInputError(f"the form cannot be read: {error.detail}") from error
    try:
        file, fields = form.get("file"), {name: value for name, value in form.items() if name != "file"}
        if not isinstance(file, UploadFile):
            raise BadInputError("the form has no file", (FieldError("/file", "must be a file"),))
        known = {field.alias or name for name, field in ImportParameters.model_fields.items()}
        if unknown := fields.keys() - known:
            errors = tuple(FieldError(f"/{name}", "is not a parameter of an import") for name in sorted(unknown))
            raise BadInputError("the form has unknown fields", errors)
        named = {"filename": PurePath(file.filename).name} if file.filename else {}
        try:
            several = {
                name: [*request.query_params.getlist(name), *form.getlist(name)] for name in ("verdict", "where")
            }
            parameters = ImportParameters.model_validate({**named, **request.query_params, **fields, **several})
        except ValidationError as error:
            raise RequestValidationError([{**e, "loc": ("body", *e["loc"])} for e in error.errors()]) from error
        yield file, parameters
    finally:
        await form.close()


async def _receive(request: Request, upload: Upload, content: AsyncIterator[bytes]) -> tuple[UUID, bool]:
    """Receive the content of a file; if that fails, delete the pieces."""
    slots = state_of(request.scope)[RequestSlots]
    try:
        async for piece in _pieces(content):
            async with slots:  # held while a piece is written, not while the next one arrives
                await asyncio.to_thread(upload.write, piece)
        async with slots:
            return await asyncio.to_thread(upload.finish)
    except BaseException:
        await asyncio.shield(asyncio.to_thread(upload.abandon))
        raise


async def _contents(file: UploadFile) -> AsyncIterator[bytes]:
    while piece := await file.read(CHUNK_BYTES):
        yield piece


async def _pieces(content: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    waiting = bytearray()
    async for piece in content:
        waiting += piece
        while len(waiting) >= CHUNK_BYTES:
            yield bytes(waiting[:CHUNK_BYTES])
            del waiting[:CHUNK_BYTES]
    if waiting:
        yield bytes(waiting)


def _find(database: Database, import_id: UUID) -> Import:
    with database.read() as conn:
        return Import(**imports.find_import(conn, import_id).model_dump())


@router.get("", dependencies=[require("ingest", "read")])
def list_imports(conn: ReadView, limit: PageSize = 50, cursor: Cursor = None) -> Page[Import]:
    """List imports, the newest first.

    Needs scope `ingest` or `read`. Problems: `not-authenticated`, `scope-missing`; `invalid` for an unknown cursor.
    """
    items = imports.list_imports(conn, limit=limit + 1, before=read_cursor(cursor, _Position))
    return paginate(items, limit, lambda last: (last.created_at, last.id))


@router.get("/{import_id}", dependencies=[require("ingest", "read")], responses=problem_responses(404))
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
        **problem_responses(404),
    },
)
def get_import_errors(
    import_id: UUID,
    conn: ReadView,
    database: HeldDatabase,
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
    return StreamingResponse(imports.error_lines(database, import_id, format), media_type=media_type, headers=headers)
