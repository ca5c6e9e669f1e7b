from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query

from app.answers import service
from app.answers.schemas import (
    AnswerBatch,
    AnswerCounts,
    Coverage,
    Prompt,
    PromptWithAnswers,
    Withdrawal,
    Withdrawn,
)
from app.api.dependencies import ReadView, Transaction, require
from app.api.pagination import Cursor, Id, Name, Page, PageSize, paginate, read_single
from app.api.problems import problem_responses
from app.auth.callers import Caller
from app.guard.bodies import takes_body

router = APIRouter(tags=["answers"])

_Admin = Annotated[Caller, require("admin")]


@router.post("/answers")
@takes_body(lambda settings: settings.server.max_body_bytes)
def post_answers(body: AnswerBatch, caller: _Admin, conn: Transaction) -> AnswerCounts:
    """Record models' answers to prompts, all or none.

    A prompt is known by its text. A model has one answer to a prompt: the same text again is a duplicate, another text
    is left out as a conflict or, with `replace`, takes the first one's place. Sending the same again changes nothing.
    Needs scope `admin`. Problems: `not-authenticated`, `scope-missing`; `malformed-body`, `media-type`,
    `body-too-large`; `invalid`, also for an unknown model where the settings refuse those.
    """
    counts = service.record_answers(conn, body.answers, replace=body.replace)
    service.note_recorded(conn, counts, subject="request", recorded_by=caller.name)
    return counts


@router.post("/answers/withdraw", responses=problem_responses(404))
def withdraw_answers(body: Withdrawal, caller: _Admin, conn: Transaction) -> Withdrawn:
    """Show a model's answer to a prompt, or all its answers, no longer.

    Votes on them stay. Withdrawing again changes nothing. Needs scope `admin`. Problems: `not-authenticated`,
    `scope-missing`; `not-found` for an unknown model or prompt; `invalid`.
    """
    number = service.withdraw_answers(conn, body.model, body.prompt_id, withdrawn_by=caller.name)
    return Withdrawn(withdrawn=number)


@router.get("/answers/coverage", dependencies=[require("admin")])
def get_coverage(conn: ReadView) -> Coverage:
    """Report how many prompts there are, and how many of them each model has answered.

    Needs scope `admin`. Problems: `not-authenticated`, `scope-missing`.
    """
    return service.report_coverage(conn)


@router.get("/prompts", dependencies=[require("admin")])
def list_prompts(
    conn: ReadView,
    category: Annotated[Name | None, Query(description="Only those of this category.")] = None,
    limit: PageSize = 50,
    cursor: Cursor = None,
) -> Page[Prompt]:
    """List prompts, by id.

    Needs scope `admin`. Problems: `not-authenticated`, `scope-missing`; `invalid` for an unknown cursor.
    """
    items = service.list_prompts(conn, limit=limit + 1, after=read_single(cursor, Id), category=category)
    return paginate(items, limit, lambda last: (last.id,))


@router.get("/prompts/{prompt_id}", dependencies=[require("admin")], responses=problem_responses(404))
def get_prompt(prompt_id: UUID, conn: ReadView) -> PromptWithAnswers:
    """Show a prompt with the models' answers.

    Needs scope `admin`. Problems: `not-authenticated`, `scope-missing`, `not-found`.
    """
    return service.find_prompt(conn, prompt_id)
