"""Imports: send a file of votes, watch it being checked and loaded, and see the errors in it."""

import asyncio
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, StreamingResponse
from starlette.datastructures import FormData, UploadFile

from app.api.dependencies import HeldDatabase, ReadView, database_turn
from app.api.sessions import signed_in
from app.auth.sessions.schemas import SignedIn
from app.database.engine import Database
from app.database.file_chunks import CHUNK_BYTES
from app.errors import BadInputError
from app.guard.bodies import takes_body
from app.imports.formats.schemas import SCHEMAS, find_schema
from app.imports.schemas import Import
from app.imports.service import ImportOptions, error_lines, find_import, list_imports
from app.imports.upload import MAX_FILE_NAME_LENGTH, Upload, kind_of_name
from app.naming.names import name_error
from app.pages.console.imports.view import show_import
from app.pages.console.rendering import redirect, render_console

router = APIRouter(prefix="/console/imports", include_in_schema=False, default_response_class=HTMLResponse)

_SHOWN = 50
Sender = Annotated[SignedIn, signed_in("ingest")]


@router.get("")
def get_imports(request: Request, visitor: Sender, conn: ReadView) -> Response:
    """List imports, and show the form that sends a file."""
    return _show(request, visitor, list_imports(conn, limit=_SHOWN))


# The form is read here, not by FastAPI, which would receive a file before it asks who sends it.
@router.post("")
@takes_body(lambda settings: settings.imports.max_bytes, streamed=True)
async def post_import(request: Request, visitor: Sender, database: HeldDatabase) -> Response:
    """Receive a file and show its import."""
    try:
        async with request.form() as form:
            file, name, kind, options = _read(form)
            caller = visitor.caller.name
            upload = Upload(database, file_name=name, kind=kind, options=options, requested_by=caller)
            async with database_turn(request):
                import_id, is_new = await asyncio.to_thread(_receive, file, upload)
    except BadInputError as error:
        found = await asyncio.to_thread(_list, database)
        return _show(request, visitor, found, problem=error.detail, status=422)
    return redirect(f"/console/imports/{import_id}{'' if is_new else '?known=true'}")


@router.get("/{import_id}")
def get_import(import_id: UUID, request: Request, visitor: Sender, conn: ReadView, *, known: bool = False) -> Response:
    """Show an import; until it has ended, the browser asks for it again every second."""
    shown = show_import(find_import(conn, import_id))
    return render_console(request, visitor, "console/imports/import.html", shown=shown, known=known)


@router.get("/{import_id}/errors")
def get_errors(import_id: UUID, _visitor: Sender, conn: ReadView, database: HeldDatabase) -> StreamingResponse:
    """Download the errors as CSV."""
    find_import(conn, import_id)
    headers = {
        "Content-Disposition": f'attachment; filename="import-{import_id}-errors.csv"',
        "Cache-Control": "no-store",
    }
    lines = error_lines(database, import_id, "csv")
    return StreamingResponse(lines, media_type="text/csv; charset=utf-8", headers=headers)


def _read(form: FormData) -> tuple[UploadFile, str, str, ImportOptions]:
    """Return the file of the form, its name, its kind, and the options.

    Raises
    ------
    BadInputError
    """
    file = form.get("file")
    if not isinstance(file, UploadFile) or not file.filename:
        raise BadInputError("choose a file")
    if len(file.filename) > MAX_FILE_NAME_LENGTH or name_error(file.filename) is not None:
        raise BadInputError(f"the file's name must have at most {MAX_FILE_NAME_LENGTH} plain characters: rename it")
    kind = kind_of_name(file.filename)
    if kind is None:
        raise BadInputError(
            "the file's name must end with .csv, .tsv, .json, .jsonl or .parquet; .gz or .zst may follow all but "
            "the last"
        )
    texts = {name: str(form.get(name, "")).strip() for name in ("schema", "annotator_column")}
    if texts["schema"]:
        find_schema(texts["schema"])
    if "\x00" in texts["annotator_column"]:
        raise BadInputError("the annotator's column must not contain the character U+0000")
    options = ImportOptions(
        schema=texts["schema"] or None,
        annotator_column=texts["annotator_column"] or None,
        skip_invalid="skip_invalid" in form,
        again="again" in form,
        dry_run="dry_run" in form,
        new_rows_only="new_rows_only" in form,
        allow_repeats="allow_repeats" in form,
    )
    return file, file.filename, kind, options


def _receive(file: UploadFile, upload: Upload) -> tuple[UUID, bool]:
    """Store the file; return the id of its import, and whether there is work to do."""
    try:
        while piece := file.file.read(CHUNK_BYTES):
            upload.write(piece)
        return upload.finish()
    except BaseException:
        upload.abandon()
        raise


def _list(database: Database) -> list[Import]:
    with database.read() as conn:
        return list_imports(conn, limit=_SHOWN)


def _show(
    request: Request, visitor: SignedIn, found: list[Import], *, problem: str | None = None, status: int = 200
) -> Response:
    return render_console(
        request,
        visitor,
        "console/imports/page.html",
        status=status,
        imports=[show_import(one) for one in found],
        schemas=sorted(schema.name for schema in SCHEMAS),
        problem=problem,
    )
