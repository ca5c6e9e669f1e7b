"""Prompts and answers: added, withdrawn, listed, and read for the battles that show them."""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args
from uuid import UUID

from sqlalchemy import ColumnElement, Connection, Row, RowMapping, and_, func, select, text, update

from app.database.tables import answers, metadata, models, prompts

_LOCK = 7_203_118_559_410_662_201  # a number of our own among PostgreSQL's advisory locks
_ADD_PROMPTS = """
INSERT INTO prompts (public_id, text, language, category, reference)
SELECT * FROM unnest(%(public_id)b::uuid[], %(text)b::text[], %(language)b::text[], %(category)b::text[],
                     %(reference)b::text[])
ON CONFLICT (public_id) DO NOTHING
"""
_COMPLETE_PROMPTS = """
UPDATE prompts SET language = coalesce(prompts.language, n.language), category = coalesce(prompts.category, n.category),
    reference = coalesce(prompts.reference, n.reference)
FROM unnest(%(public_id)b::uuid[], %(language)b::text[], %(category)b::text[], %(reference)b::text[])
     AS n(public_id, language, category, reference)
WHERE prompts.public_id = n.public_id AND (prompts.language IS NULL AND n.language IS NOT NULL
    OR prompts.category IS NULL AND n.category IS NOT NULL OR prompts.reference IS NULL AND n.reference IS NOT NULL)
"""
_FIND = """
SELECT a.prompt_id, a.model_id, sha256(convert_to(a.text, 'UTF8'))
FROM answers AS a JOIN unnest(%(prompt_id)b::int[], %(model_id)b::int[]) AS wanted(prompt_id, model_id)
    ON a.prompt_id = wanted.prompt_id AND a.model_id = wanted.model_id
WHERE a.withdrawn_at IS NULL
"""
_WITHDRAW = """
UPDATE answers SET withdrawn_at = clock_timestamp()
FROM unnest(%(prompt_id)b::int[], %(model_id)b::int[]) AS wanted(prompt_id, model_id)
WHERE answers.prompt_id = wanted.prompt_id AND answers.model_id = wanted.model_id AND withdrawn_at IS NULL
"""
_ADD = """
INSERT INTO answers (prompt_id, model_id, text, measures)
SELECT prompt_id, model_id, text, measures::jsonb
FROM unnest(%(prompt_id)b::int[], %(model_id)b::int[], %(text)b::text[], %(measures)b::text[])
     AS n(prompt_id, model_id, text, measures)
"""

# A long text is stored apart from its row: what is not wanted is not read. IN is several times as slow in SQLAlchemy.
_TEXTS = """
SELECT id, CASE WHEN NOT %(html)s OR html IS NULL THEN text END, CASE WHEN %(html)s THEN html END
FROM {} WHERE id = ANY(%(ids)b::bigint[])
"""
_SHOWN = """
SELECT m.name, a.id, CASE WHEN a.html IS NULL THEN a.text END, a.html
FROM answers AS a JOIN models AS m ON m.id = a.model_id JOIN prompts AS p ON p.id = a.prompt_id
WHERE p.public_id = %(prompt)s AND a.withdrawn_at IS NULL ORDER BY m.name
"""

_CODE = re.compile(r"```[^`]*```")
_HEADER = re.compile(r"^#{1,6}\s", re.MULTILINE)
_ITEM = re.compile(r"^[ \t]*(?:\d+\.|[-*+])\s", re.MULTILINE)
_BOLD = re.compile(r"\*\*[^*\n]+\*\*|__[^_\n]+__")

Pair = tuple[int, int]
"""The numbers of a prompt and a model."""
TextTable = Literal["prompts", "answers"]


class PromptRow(NamedTuple):
    """A prompt as the table stores it."""

    public_id: UUID
    text: str
    language: str | None
    category: str | None
    reference: str | None


class StoredText(NamedTuple):
    """A prompt or an answer: its text, its HTML, or both."""

    table: TextTable
    id: int
    text: str | None
    html: str | None = None


def lock_answers(conn: Connection) -> None:
    """Let no other transaction change answers until this one ends: their numbers then grow in the order of commits."""
    conn.execute(select(func.pg_advisory_xact_lock(_LOCK)))


def add_prompts(conn: Connection, rows: Collection[PromptRow]) -> tuple[dict[UUID, int], int]:
    """Add prompts that are new, and what the others lack; return the number of each, and how many are new."""
    columns = _columns(PromptRow._fields, rows)
    added = conn.exec_driver_sql(_ADD_PROMPTS, columns).rowcount
    conn.exec_driver_sql(_COMPLETE_PROMPTS, {name: values for name, values in columns.items() if name != "text"})
    statement = select(prompts.c.public_id, prompts.c.id).where(prompts.c.public_id.in_(columns["public_id"]))
    return {row.public_id: row.id for row in conn.execute(statement)}, added


def find_answers(conn: Connection, pairs: Collection[Pair]) -> dict[Pair, bytes]:
    """Return the SHA-256 of the answers that these models have to these prompts."""
    found = conn.exec_driver_sql(_FIND, _columns(("prompt_id", "model_id"), pairs))
    return {(prompt_id, model_id): bytes(digest) for prompt_id, model_id, digest in found}


def add_answers(conn: Connection, texts: Mapping[Pair, str], *, replaced: Collection[Pair]) -> None:
    """Add answers, and withdraw those whose places they take."""
    if replaced:
        conn.exec_driver_sql(_WITHDRAW, _columns(("prompt_id", "model_id"), replaced))
    if texts:
        rows = [(*pair, answer, json.dumps(measure_answer(answer))) for pair, answer in texts.items()]
        conn.exec_driver_sql(_ADD, _columns(("prompt_id", "model_id", "text", "measures"), rows))


def measure_answer(text: str) -> dict[str, int]:
    r"""Return the words of an answer, and the headers, list items and bold passages outside its blocks of code.

    >>> measure_answer("# Why\\n- **blue** light\\n- scatters")
    {'length': 7, 'headers': 1, 'lists': 2, 'bold': 1}
    """
    prose = _CODE.sub("", text)
    counted = {
        name: len(form.findall(prose)) for name, form in (("headers", _HEADER), ("lists", _ITEM), ("bold", _BOLD))
    }
    return {"length": len(text.split()), **counted}


def _columns(names: Sequence[str], rows: Collection[tuple[Any, ...]]) -> dict[str, list[Any]]:
    return {name: list(values) for name, values in zip(names, zip(*rows, strict=True), strict=True)}


def withdraw_answers(conn: Connection, model_id: int, prompt_id: UUID | None) -> int:
    """Withdraw the model's answer to a prompt, or all its answers; return how many there were."""
    c = answers.c
    statement = update(answers).where(c.model_id == model_id, c.withdrawn_at.is_(None))
    if prompt_id is not None:
        numbers = select(prompts.c.id).where(prompts.c.public_id == prompt_id)
        statement = statement.where(c.prompt_id.in_(numbers.scalar_subquery()))
    return conn.execute(statement.values(withdrawn_at=func.clock_timestamp())).rowcount


def list_prompts(
    conn: Connection, *, limit: int, after: UUID | None = None, category: str | None = None
) -> Sequence[RowMapping]:
    """Return prompts as `schemas.Prompt` has them, in the order of their ids, those after one."""
    conditions = [
        *([prompts.c.public_id > after] if after is not None else []),
        *([prompts.c.category == category] if category is not None else []),
    ]
    return conn.execute(_listed(*conditions).order_by(prompts.c.public_id).limit(limit)).mappings().all()


def get_prompt(conn: Connection, prompt_id: UUID) -> RowMapping | None:
    """Return a prompt as `schemas.Prompt` has it."""
    return conn.execute(_listed(prompts.c.public_id == prompt_id)).mappings().one_or_none()


def _listed(*conditions: ColumnElement[bool]) -> Any:
    c, shown = prompts.c, answers.c
    counted = (
        select(func.count())
        .where(shown.prompt_id == c.id, shown.withdrawn_at.is_(None))
        .correlate(prompts)
        .scalar_subquery()
    )
    return select(
        c.public_id.label("id"), c.text, c.language, c.category, c.reference, c.created_at, counted.label("answers")
    ).where(and_(True, *conditions))


def list_answers(conn: Connection, prompt_id: UUID) -> Sequence[RowMapping]:
    """Return the answers to a prompt that may be shown, by model."""
    statement = (
        select(models.c.name.label("model"), answers.c.text, answers.c.created_at)
        .join_from(answers, models, models.c.id == answers.c.model_id)
        .join(prompts, prompts.c.id == answers.c.prompt_id)
        .where(prompts.c.public_id == prompt_id, answers.c.withdrawn_at.is_(None))
        .order_by(models.c.name)
    )
    return conn.execute(statement).mappings().all()


def count_prompts(conn: Connection) -> dict[str, int]:
    """Return the number of prompts by category, "" for those without one."""
    category = func.coalesce(prompts.c.category, "").label("category")
    statement = select(category, func.count().label("n")).group_by(category).order_by(category)
    return {row.category: row.n for row in conn.execute(statement)}


def count_answers(conn: Connection) -> Sequence[Row[Any]]:
    """Return `model, category, n` of the answers that may be shown."""
    category = func.coalesce(prompts.c.category, "").label("category")
    statement = (
        select(models.c.name.label("model"), category, func.count().label("n"))
        .join_from(answers, models, models.c.id == answers.c.model_id)
        .join(prompts, prompts.c.id == answers.c.prompt_id)
        .where(answers.c.withdrawn_at.is_(None))
        .group_by(models.c.name, category)
        .order_by(models.c.name, category)
    )
    return conn.execute(statement).all()


def pool_version(conn: Connection) -> tuple[Any, ...]:
    """Return what differs after every change of answers."""
    latest = select(func.max(answers.c.id).label("added"), func.max(answers.c.withdrawn_at).label("withdrawn"))
    return tuple(conn.execute(latest).one())


def read_pool(conn: Connection) -> Sequence[Row[Any]]:
    """Return `id, language, category, model_ids, answer_ids` of prompts with two answers that may be shown."""
    statement = text(
        """
        SELECT p.id, p.language, p.category, a.model_ids, a.answer_ids
        FROM prompts AS p JOIN (
            SELECT prompt_id, array_agg(model_id ORDER BY model_id) AS model_ids,
                   array_agg(id ORDER BY model_id) AS answer_ids
            FROM answers WHERE withdrawn_at IS NULL GROUP BY prompt_id HAVING count(*) > 1
        ) AS a ON a.prompt_id = p.id ORDER BY p.id
        """
    )
    return conn.execute(statement).all()


def read_texts(conn: Connection, table: TextTable, ids: Collection[int], *, html: bool) -> dict[int, StoredText]:
    """Return texts by number, withdrawn ones too; with `html` their HTML, and the text only where there is none."""
    rows = conn.exec_driver_sql(_TEXTS.format(table), {"ids": list(ids), "html": html})
    return {row[0]: StoredText(table, *row) for row in rows}


def read_shown(conn: Connection, prompt_id: UUID) -> tuple[StoredText, list[tuple[str, StoredText]]]:
    """Return a prompt and, by model, the answers to it that may be shown, as HTML where it is there."""
    number = conn.execute(select(prompts.c.id).where(prompts.c.public_id == prompt_id)).scalar_one()
    rows = conn.exec_driver_sql(_SHOWN, {"prompt": prompt_id})
    asked = read_texts(conn, "prompts", [number], html=True)[number]
    return asked, [(model, StoredText("answers", *row)) for model, *row in rows]


def list_unrendered(conn: Connection, limit: int) -> list[StoredText]:
    """Return texts without HTML, those of prompts first."""
    found = list[StoredText]()
    for table in get_args(TextTable):
        statement = f"SELECT id, text FROM {table} WHERE html IS NULL ORDER BY id LIMIT %(limit)s"  # noqa: S608  of ours
        rows = conn.exec_driver_sql(statement, {"limit": limit - len(found)})
        found += [StoredText(table, *row) for row in rows]
    return found


def store_html(conn: Connection, one: StoredText, html: str) -> None:
    """Store a text's HTML, unless another process has."""
    table = metadata.tables[one.table]
    conn.execute(update(table).where(table.c.id == one.id, table.c.html.is_(None)).values(html=html))
