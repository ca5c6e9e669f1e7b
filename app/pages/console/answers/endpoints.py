"""Answers: what can be shown to those who vote, as they see it; and a form that sends a file, or tries it out."""

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Annotated
from uuid import UUID

from fastapi import Form, Response
from markupsafe import Markup
from sqlalchemy import Connection
from starlette.datastructures import FormData, UploadFile

from app.answers.queries import StoredText, read_shown
from app.answers.rendered import WAIT_SECONDS, Renderings
from app.answers.rendering import show_source
from app.answers.schemas import AnswerCounts
from app.answers.service import find_prompt, list_prompts, report_coverage, withdraw_answers
from app.api.dependencies import HeldDatabase, ReadView, Transaction, database_turn, held
from app.database.engine import Database
from app.errors import BadInputError
from app.guard.bodies import takes_body
from app.imports.upload import kind_of_name
from app.pages.console.rendering import Admin, Console, console_router

router = console_router("answers")

_SHOWN = 50
_SEE_ALL = "/console/answers"


@dataclass(frozen=True)
class Sent:
    """What became of a file or, if it was tried out, of so many of its answers, the first."""

    counts: AnswerCounts
    tried: int = 0
    answers: int = 0


@router.get("")
def get_answers(console: Admin, conn: ReadView, after: UUID | None = None) -> Response:
    """List prompts, and which models have answered them."""
    return _page(console, conn, after=after)


# The form is read here, not by FastAPI, which would receive a file before it asks who sends it.
@router.post("")
@takes_body(lambda settings: settings.imports.max_bytes, streamed=True)
async def post_answers(console: Admin, database: HeldDatabase) -> Response:
    """Record the answers of a file or, to try it out, show what would be recorded."""
    async with console.request.form() as form, database_turn(console.request):
        return await asyncio.to_thread(_receive, console, database, form)


@router.get("/{prompt_id}")
def get_prompt(
    prompt_id: UUID, console: Admin, conn: ReadView, renderings: Annotated[Renderings, held(Renderings)]
) -> Response:
    """Show a prompt and its answers as those see them who vote."""
    found = find_prompt(conn, prompt_id)
    asked, answers = read_shown(conn, prompt_id)
    shown = [(model, _html(renderings, one)) for model, one in answers]
    return console.page("answers/prompt.html", prompt=found, text=_html(renderings, asked), answers=shown)


@router.post("/{prompt_id}/withdraw")
def post_withdraw(prompt_id: UUID, console: Admin, conn: Transaction, model: Annotated[str, Form()]) -> Response:
    """Show an answer no longer."""
    withdraw_answers(conn, model, prompt_id, withdrawn_by=console.actor)
    return console.go(f"{_SEE_ALL}/{prompt_id}", f"The answer of {model} is withdrawn. Votes on it stay.")


def _html(renderings: Renderings, one: StoredText) -> Markup:
    try:
        html = renderings.submit(one).result(timeout=WAIT_SECONDS)
    except TimeoutError:
        html = show_source(one.text or "", "late").html
    return Markup(html)  # noqa: S704  it is sanitised


def _receive(console: Console, database: Database, form: FormData) -> Response:
    from app.imports.answers import import_answers, try_answers  # noqa: PLC0415  a server starts without polars

    problem, sent, replace = None, None, "replace" in form
    try:
        with _copied(form) as path:
            if "try" in form:
                with database.begin() as conn:
                    page = _page(console, conn, Sent(*try_answers(conn, path, replace=replace)))
                    conn.rollback()
                return page
            sent = Sent(import_answers(database, path, replace=replace, recorded_by=console.actor))
    except BadInputError as error:
        problem = error
    with database.read() as conn:
        return _page(console, conn, sent, problem)


def _page(
    console: Console,
    conn: Connection,
    sent: Sent | None = None,
    problem: BadInputError | None = None,
    after: UUID | None = None,
) -> Response:
    found = list_prompts(conn, limit=_SHOWN + 1, after=after)
    return console.page(
        "answers/page.html",
        status=422 if problem else 200,
        prompts=found[:_SHOWN],
        after=found[_SHOWN - 1].id if len(found) > _SHOWN else None,
        coverage=report_coverage(conn),
        sent=sent,
        problem=problem,
    )


@contextmanager
def _copied(form: FormData) -> Iterator[Path]:
    """Copy the form's file to a folder; errors inside have the name that it was sent under."""
    file = form.get("file")
    if not isinstance(file, UploadFile) or not file.filename or kind_of_name(file.filename) is None:
        raise BadInputError("choose a file whose name ends with .jsonl, .json, .csv, .tsv or .parquet")
    with tempfile.TemporaryDirectory(prefix="stable-arena-") as folder:
        path = Path(folder) / f"answers{''.join(PurePath(file.filename).suffixes[-2:])}"
        with path.open("wb") as copy:
            shutil.copyfileobj(file.file, copy)
        try:
            yield path
        except BadInputError as error:
            raise BadInputError(error.detail.replace(str(path), file.filename), error.errors) from error
