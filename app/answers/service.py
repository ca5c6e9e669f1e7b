"""Prompts and the models' answers to them: recorded, replaced, withdrawn, listed."""

from collections import Counter
from collections.abc import Sequence
from hashlib import sha256
from uuid import UUID

from sqlalchemy import Connection

from app.answers import queries as store
from app.answers.queries import Pair, PromptRow
from app.answers.schemas import (
    Answer,
    AnswerCounts,
    AnswerStatus,
    Coverage,
    ModelCoverage,
    NewAnswer,
    Prompt,
    PromptWithAnswers,
)
from app.api.problems import invalid_input
from app.audit import service as audit
from app.database.notices import notify
from app.errors import FieldError, NotFoundError
from app.models.service import find_model
from app.naming.service import resolve_models


def prompt_id_of(text: str) -> UUID:
    """Return the id of a prompt, which its text makes: blanks around it do not count.

    >>> prompt_id_of("Why?") == prompt_id_of(" Why? ")
    True
    """
    return UUID(bytes=sha256(text.strip().encode()).digest()[:16])


def record_answers(conn: Connection, given: Sequence[NewAnswer], *, replace: bool = False) -> AnswerCounts:
    """Record answers, and return how many had each result. The caller writes the audit log: see `note_recorded`.

    A model has one answer to a prompt. The same text again is a duplicate; another text replaces the first, or is left
    out as a conflict. What a prompt has of language, category and reference stays, and what it lacks is added.

    Raises BadInputError: a model is unknown, and the settings refuse unknown models.
    """
    store.lock_answers(conn)
    names = resolve_models(conn, {(one.model, None) for one in given})
    numbers = [names.number(one.model, None) for one in given]
    if unknown := [place for place, number in enumerate(numbers) if number is None]:
        raise invalid_input(
            tuple(FieldError(f"/answers/{place}/model", "is not the name of a model") for place in unknown)
        )
    ids = [prompt_id_of(one.prompt) for one in given]
    rows: dict[UUID, PromptRow] = {}
    for prompt_id, one in zip(ids, given, strict=True):
        before = rows.get(prompt_id, one)
        about = (getattr(before, name) or getattr(one, name) for name in ("language", "category", "reference"))
        rows[prompt_id] = PromptRow(prompt_id, one.prompt.strip(), *about)
    number_of, new_prompts = store.add_prompts(conn, rows.values())
    pairs: list[Pair] = [(number_of[i], n) for i, n in zip(ids, numbers, strict=True) if n is not None]
    stored = store.find_answers(conn, set(pairs))
    known, texts = dict(stored), dict[Pair, str]()
    counts = Counter[str]()
    for pair, one in zip(pairs, given, strict=True):
        digest = sha256(one.answer.encode()).digest()
        status = _status(known.get(pair), digest, replace=replace)
        counts[status] += 1
        if status in ("created", "replaced"):
            known[pair], texts[pair] = digest, one.answer
    store.add_answers(conn, texts, replaced=texts.keys() & stored.keys())
    if texts:
        notify(conn, "answers")  # they are to be rendered
    return AnswerCounts(prompts=new_prompts, **counts)


def _status(before: bytes | None, digest: bytes, *, replace: bool) -> AnswerStatus:
    if before is None:
        return "created"
    if before == digest:
        return "duplicate"
    return "replaced" if replace else "conflict"


def note_recorded(conn: Connection, counts: AnswerCounts, *, subject: str, recorded_by: str) -> None:
    """Add to the audit log that answers were recorded, from a file or a request, if any were."""
    if counts.created or counts.replaced:
        audit.record(conn, actor=recorded_by, action="answers.record", subject=subject, detail=counts.model_dump())


def withdraw_answers(conn: Connection, model: str, prompt_id: UUID | None, *, withdrawn_by: str) -> int:
    """Show a model's answer to a prompt, or all its answers, no longer; return how many. Votes on them stay.

    Raises NotFoundError: there is no such model or prompt.
    """
    if prompt_id is not None:
        find_prompt(conn, prompt_id)
    store.lock_answers(conn)
    found = find_model(conn, model)
    number = store.withdraw_answers(conn, found.model_id, prompt_id)
    if number:
        detail = {"answers": number, "prompt": prompt_id}
        audit.record(conn, actor=withdrawn_by, action="answers.withdraw", subject=found.name, detail=detail)
    return number


def list_prompts(
    conn: Connection, *, limit: int, after: UUID | None = None, category: str | None = None
) -> list[Prompt]:
    """Return prompts in the order of their ids, those after one, of one category if so asked."""
    rows = store.list_prompts(conn, limit=limit, after=after, category=category)
    return [Prompt.model_validate(dict(row)) for row in rows]


def find_prompt(conn: Connection, prompt_id: UUID) -> PromptWithAnswers:
    """Return a prompt with the answers that may be shown. Raises NotFoundError."""
    row = store.get_prompt(conn, prompt_id)
    if row is None:
        raise NotFoundError(f"there is no prompt {prompt_id}")
    shown = [Answer.model_validate(dict(one)) for one in store.list_answers(conn, prompt_id)]
    return PromptWithAnswers.model_validate({**row, "shown": shown})


def report_coverage(conn: Connection) -> Coverage:
    """Return how many prompts there are, and how many of them each model has answered."""
    categories = store.count_prompts(conn)
    of: dict[str, dict[str, int]] = {}
    for row in store.count_answers(conn):
        of.setdefault(row.model, {})[row.category] = row.n
    models = [ModelCoverage(model=name, answers=sum(n.values()), categories=n) for name, n in of.items()]
    return Coverage(prompts=sum(categories.values()), categories=categories, models=models)
