"""Imports: send a file of votes, watch it being checked and loaded, and see the errors in it."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, NamedTuple, get_args
from uuid import UUID

from fastapi import Response
from fastapi.responses import StreamingResponse
from sqlalchemy import Connection
from starlette.datastructures import FormData, UploadFile

from app.api.dependencies import HeldDatabase, ReadView, database_turn, held
from app.database.engine import Database
from app.database.file_chunks import CHUNK_BYTES
from app.errors import BadInputError
from app.guard.bodies import SMALL, takes_body
from app.imports.formats.options import ZeroRank
from app.imports.formats.schemas import SCHEMAS
from app.imports.preview import FilePreviews
from app.imports.schemas import State
from app.imports.service import ImportOptions, error_lines, find_import, find_unknown_words, list_imports
from app.imports.upload import MAX_FILE_NAME_LENGTH, Upload, kind_of_name
from app.naming.names import name_error
from app.pages.console.rendering import Console, Sender, Tone, console_router, redirect

router = console_router("imports")

_SHOWN = 50


@router.get("")
def get_imports(console: Sender, conn: ReadView) -> Response:
    """List imports, and show the form that sends a file."""
    return _show(console, conn)


# The form is read here, not by FastAPI, which would receive a file before it asks who sends it.
@router.post("")
@takes_body(lambda settings: settings.imports.max_bytes, streamed=True)
async def post_import(console: Sender, database: HeldDatabase) -> Response:
    """Receive a file and show its import."""
    try:
        async with console.request.form() as form:
            file, name, kind, options = _read(form)
            caller = console.actor
            upload = Upload(database, file_name=name, kind=kind, options=options, requested_by=caller)
            async with database_turn(console.request):
                import_id, is_new = await asyncio.to_thread(_receive, file, upload)
    except BadInputError as error:
        return await asyncio.to_thread(_show_problem, console, database, error.detail)
    return redirect(f"/console/imports/{import_id}{'' if is_new else '?known=true'}")


@router.post("/preview")
@takes_body(lambda _: PREVIEW_BYTES + SMALL)
async def post_preview(console: Sender, previews: Annotated[FilePreviews, held(FilePreviews)]) -> Response:
    """Show what an import would make of the beginning of a file: its columns, its first records, unknown verdicts."""
    found, words = None, list[MappedWord]()
    async with console.request.form() as form:
        try:
            file, name, kind, options = _read(form)
            content = await file.read()
            found = await asyncio.to_thread(
                previews.preview, content, options, name=name, ending=f".{kind}", cut="cut" in form
            )
            words = map_words(found.unknown, _verdicts(form))
            problem = found.problem
        except BadInputError as error:
            problem = error.detail
        chosen = {field: str(form.get(f"column_{field}", "")) for field in MAPPED}
    return console.page(
        "imports/preview.html",
        found=found,
        words=words,
        chosen=chosen,
        problem=problem,
        fields=MAPPED,
        meanings=MEANINGS,
    )


@router.get("/{import_id}")
def get_import(import_id: UUID, console: Sender, conn: ReadView, *, known: bool = False) -> Response:
    """Show an import; until it has ended, the browser asks for it again every second."""
    found = find_import(conn, import_id)
    words = map_words(find_unknown_words(conn, import_id), found.options.get("verdict", ()))
    kept = ("schema", "annotator_column", "columns", "zero_rank", "new_rows_only", "allow_repeats")
    again = {name: found.options[name] for name in kept if found.options.get(name)}
    if found.options.get("where"):
        again["where"] = "\n".join(found.options["where"])
    return console.page(
        "imports/import.html",
        one=found,
        states=STATES,
        labels=COUNTS,
        known=known,
        words=words,
        again=again,
        meanings=MEANINGS,
    )


@router.get("/{import_id}/errors")
def get_errors(import_id: UUID, _console: Sender, conn: ReadView, database: HeldDatabase) -> StreamingResponse:
    """Download the errors as CSV."""
    find_import(conn, import_id)
    headers = {
        "Content-Disposition": f'attachment; filename="import-{import_id}-errors.csv"',
        "Cache-Control": "no-store",
    }
    lines = error_lines(database, import_id, "csv")
    return StreamingResponse(lines, media_type="text/csv; charset=utf-8", headers=headers)


def _read(form: FormData) -> tuple[UploadFile, str, str, ImportOptions]:
    """Return the file of the form, its name, its kind, and the options. Raises BadInputError."""
    file = form.get("file")
    if not isinstance(file, UploadFile) or not file.filename:
        raise BadInputError("choose a file")
    if len(file.filename) > MAX_FILE_NAME_LENGTH or name_error(file.filename) is not None:
        raise BadInputError(f"the file's name must have at most {MAX_FILE_NAME_LENGTH} plain characters: rename it")
    kind = kind_of_name(file.filename)
    if kind is None:
        raise BadInputError(
            "the file's name must end with .csv, .tsv, .txt, .json, .jsonl, .parquet or .zip; text may be compressed "
            "(.gz, .zst)"
        )
    texts = {name: str(form.get(name, "")).strip() for name in ("schema", "annotator_column", "columns")}
    named = [f"{field}={column}" for field in MAPPED if (column := str(form.get(f"column_{field}", "")))]
    if not named or texts["columns"].startswith("weight="):  # for which there is no choice beside the file
        named.append(texts["columns"])
    options = ImportOptions(
        schema=texts["schema"] or None,
        annotator_column=texts["annotator_column"] or None,
        columns=",".join(named) or None,
        verdict=_verdicts(form),
        where=tuple(line.strip() for line in str(form.get("where", "")).splitlines() if line.strip()),
        zero_rank=next((word for word in get_args(ZeroRank) if word == form.get("zero_rank")), None),
        skip_invalid="skip_invalid" in form,
        again="again" in form,
        dry_run="dry_run" in form,
        new_rows_only="new_rows_only" in form,
        allow_repeats="allow_repeats" in form,
    )
    return file, file.filename, kind, options


def _verdicts(form: FormData) -> tuple[str, ...]:
    """Return what words mean, as `gauche=left`: of the lines of a text, and of words with a choice beside each."""
    lines = [line.strip() for line in str(form.get("verdict", "")).splitlines()]
    pairs = zip(form.getlist("word"), form.getlist("meaning"), strict=False)
    return tuple(line for line in [*lines, *(f"{word}={meaning}" for word, meaning in pairs if meaning)] if line)


MAPPED = {
    "annotator": "Annotator",
    "model_a": "Left model",
    "model_b": "Right model",
    "winner": "Verdict",
    "timestamp": "Time",
}
"""The fields whose column may be chosen."""
MEANINGS = {"left": "left is better", "right": "right is better", "tie": "tie", "both_bad": "both are bad"}
PREVIEW_BYTES = 4 * 1024**2


class MappedWord(NamedTuple):
    """A word for a verdict, how often it was seen, and what it means; "" where that is not said yet."""

    word: str
    number: int
    meaning: str


def map_words(unknown: Sequence[tuple[str, int]], verdicts: Sequence[str]) -> list[MappedWord]:
    """Return the unknown words, and those whose meaning is said already, as `gauche=left`."""
    said = {word: meaning for word, _, meaning in (one.rpartition("=") for one in verdicts)}
    numbers = dict(unknown)
    return [MappedWord(word, numbers.get(word, 0), said.get(word, "")) for word in dict.fromkeys([*said, *numbers])]


def _receive(file: UploadFile, upload: Upload) -> tuple[UUID, bool]:
    """Store the file; return the id of its import, and whether there is work to do."""
    try:
        while piece := file.file.read(CHUNK_BYTES):
            upload.write(piece)
        return upload.finish()
    except BaseException:
        upload.abandon()
        raise


def _show_problem(console: Console, database: Database, problem: str) -> Response:
    with database.read() as conn:
        return _show(console, conn, problem)


def _show(console: Console, conn: Connection, problem: str | None = None) -> Response:
    return console.page(
        "imports/page.html",
        status=200 if problem is None else 422,
        imports=list_imports(conn, limit=_SHOWN),
        states=STATES,
        schemas=sorted(schema.name for schema in SCHEMAS),
        problem=problem,
    )


STATES: dict[State, tuple[str, Tone]] = {
    "queued": ("waiting", "accent"),
    "running": ("loading", "accent"),
    "done": ("done", "good"),
    "failed": ("failed", "bad"),
}
COUNTS = {
    "rows": "records",
    "created": "votes recorded",
    "replaced": "replaced an earlier vote",
    "duplicates": "stored already",
    "conflicts": "contradict a stored vote",
    "rejected": "not valid",
    "skipped": "without a vote",
}
