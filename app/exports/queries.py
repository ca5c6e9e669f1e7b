"""The queries behind exports, which the server runs and streams, and the record of exports."""

from collections.abc import Mapping
from io import BufferedIOBase
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Connection,
    Float,
    Integer,
    Numeric,
    RowMapping,
    Text,
    and_,
    case,
    cast,
    delete,
    func,
    insert,
    literal,
    not_,
    or_,
    select,
    type_coerce,
    update,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.sql import Select

from app.annotators.standings import standing_of
from app.database.engine import driver_of
from app.database.notices import notify
from app.database.tables import (
    annotators,
    answers,
    battles,
    exports,
    models,
    prompts,
    snapshot_annotators,
    snapshots,
    votes,
)
from app.exports.schemas import ExportFilters
from app.leaderboard.row_files import FORMULA
from app.models.contestants import Contestants
from app.snapshots.vote_sets import is_retracted, seen_by
from app.votes.queries import battle_of, prompt_of, ranking_of, ranks
from app.votes.rules import WINNERS

CopyForm = Literal["csv", "safe csv", "jsonl"]

# JSON has no control characters. With these as quote and delimiter, CSV output is the JSON itself, one line a row.
_AS_LINES = r"(FORMAT csv, QUOTE E'\x01', DELIMITER E'\x02')"


def votes_query(
    filters: ExportFilters, *, model_id: int | None, vote_set: str | None, contestants: Contestants, ranked: bool,
    raw: bool = False,
) -> Select[Any]:  # fmt: skip
    """Select the votes that count, oldest first: not retracted, received in [since, until), seen by the vote set.

    Those on a model are those recorded under it, and those that count for it. `ranked` : whether there are rankings,
    which then have the column `ranking` in the place of a pair's. `raw`: write times as PostgreSQL does, which takes
    half as long, in UTC.
    """
    time_of = _utc if raw else _iso

    def of_pair(column: ColumnElement[Any]) -> ColumnElement[Any]:
        return case((votes.c.ranking.is_(None), column)) if ranked else column

    v, side_a, side_b, counts_a, counts_b = votes.c, *(models.alias() for _ in range(4))
    contestant_a, contestant_b = contestants.sides()
    conditions = [not_(is_retracted(v.id, vote_set))]
    if vote_set is not None:
        conditions.append(seen_by(v.recorded_in, vote_set))
    if filters.since is not None:
        conditions.append(v.received_at >= filters.since)
    if filters.until is not None:
        conditions.append(v.received_at < filters.until)
    if model_id is not None:
        sides = (v.model_a_id, v.model_b_id, contestant_a, contestant_b)
        conditions.append(or_(*(side == model_id for side in sides), ranks(model_id)))
        if ranked:
            conditions[-1] |= select(literal(1)).where(contestants.ranked() == model_id).exists()
    return (
        select(
            v.id.label("vote_id"),
            annotators.c.key.label("annotator"),
            of_pair(side_a.c.name).label("model_a"),
            of_pair(side_b.c.name).label("model_b"),
            of_pair(case(dict(enumerate(WINNERS)), value=v.outcome)).label("winner"),
            battle_of(),
            time_of(v.voted_at).label("timestamp"),
            case((func.cardinality(v.tags) > 0, func.to_json(v.tags))).label("tags"),
            v.metadata,
            time_of(v.received_at).label("received_at"),
            v.sealed_battle_id.is_not(None).label("sealed"),
            battles.c.propensity,
            of_pair(counts_a.c.name).label("contestant_a"),
            of_pair(counts_b.c.name).label("contestant_b"),
            v.features,
            v.criterion,
            prompt_of(),
            *((ranking_of(),) if ranked else ()),
        )
        .join_from(votes, annotators, annotators.c.id == v.annotator_id)
        .outerjoin(battles, battles.c.id == v.sealed_battle_id)
        .join(side_a, side_a.c.id == v.model_a_id)
        .join(side_b, side_b.c.id == v.model_b_id)
        .join(counts_a, counts_a.c.id == contestant_a)
        .join(counts_b, counts_b.c.id == contestant_b)
        .where(*conditions)
        .order_by(v.id)
    )


def annotators_query(*, standing: str | None) -> Select[Any]:
    """Select all annotators with the figures of the newest snapshot, by key."""
    newest = select(snapshots.c.id).order_by(snapshots.c.number.desc()).limit(1).scalar_subquery()
    figures, k = snapshot_annotators.c, annotators.c
    effective = standing_of(k.rule_standing, k.override, k.dismissed_below)
    statement = select(
        k.public_id.label("id"),
        k.key.label("annotator"),
        *(figures[name] for name in ("ability", "se", "shadow_ability", "shadow_se", "probability_low")),
        func.coalesce(figures.votes, 0).label("votes"),
        effective.label("standing"),
    ).outerjoin_from(annotators, snapshot_annotators, and_(figures.annotator_id == k.id, figures.snapshot_id == newest))
    return (statement.where(effective == standing) if standing else statement).order_by(k.key.collate("C"))


def answers_query(*, model_id: int | None) -> Select[Any]:
    """Select the answers that may be shown, by prompt and model, in columns that `answers import` reads."""
    p, a = prompts.c, answers.c
    statement = (
        select(
            p.text.label("prompt"),
            models.c.name.label("model"),
            a.text.label("answer"),
            p.language,
            p.category,
            p.reference,
        )
        .join_from(answers, prompts, p.id == a.prompt_id)
        .join(models, models.c.id == a.model_id)
        .where(a.withdrawn_at.is_(None))
    )
    return (statement if model_id is None else statement.where(a.model_id == model_id)).order_by(
        a.prompt_id, a.model_id
    )


def copy_rows(conn: Connection, rows: Select[Any], form: CopyForm, to: BufferedIOBase) -> int:
    """Write the rows as the server streams them; return their number.

    CSV begins with a header. In "safe csv", texts that a spreadsheet would read as formulas, and texts that begin with
    an apostrophe, have one apostrophe more in front; numbers stay numbers.
    """
    statement = _copy_statement(rows, form)
    with driver_of(conn).cursor() as cursor:
        with cursor.copy(statement) as copy:
            for piece in copy:
                to.write(piece)
        return cursor.rowcount


def _copy_statement(rows: Select[Any], form: CopyForm) -> bytes:
    inner = rows.subquery()
    if form == "jsonl":
        line = func.row_to_json(type_coerce(inner.table_valued(), Text))
        return _literal(select(cast(line, Text)).select_from(inner), _AS_LINES)
    safe = form == "safe csv"
    columns: list[ColumnElement[Any]] = [(_no_formula(c) if safe else cast(c, Text)).label(c.key) for c in inner.c]
    return _literal(select(*columns), "(FORMAT csv, HEADER)")


def _no_formula(column: ColumnElement[Any]) -> ColumnElement[str]:
    """Return a column as text with formulas made safe; numbers are safe already, with or without a sign."""
    text = cast(column, Text)
    if isinstance(column.type, Integer | Float | Numeric):
        return text
    return case((text.regexp_match(FORMULA), literal("'") + text), else_=text)


def _literal(statement: Select[Any], options: str) -> bytes:
    """Return a query as COPY, with its values written into it: COPY takes no parameters."""
    dialect = postgresql.dialect(paramstyle="named")  # type: ignore[no-untyped-call]  # not typed
    text = str(statement.compile(dialect=dialect, compile_kwargs={"literal_binds": True}))
    return f"COPY ({text}) TO STDOUT {options}".encode()


def _utc(moment: ColumnElement[Any]) -> ColumnElement[Any]:
    return func.timezone("UTC", moment)


def _iso(moment: ColumnElement[Any]) -> ColumnElement[str]:
    return func.to_char(_utc(moment), 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')


def add_export(conn: Connection, export_id: UUID, values: Mapping[str, Any]) -> None:
    """Record an export that waits."""
    conn.execute(insert(exports).values(id=export_id, state="queued", **values))
    notify(conn, "files")


def get_export(conn: Connection, export_id: UUID, *, lock: bool = False) -> RowMapping | None:
    """Return an export, or None; with `lock`, locked until this transaction ends."""
    statement = select(exports).where(exports.c.id == export_id)
    return conn.execute(statement.with_for_update() if lock else statement).mappings().one_or_none()


def runnable_exports(conn: Connection) -> list[UUID]:
    """Return the exports that wait or that a dead process left, the oldest first."""
    statement = select(exports.c.id).where(exports.c.state.in_(("queued", "running")))
    return list(conn.execute(statement.order_by(exports.c.created_at, exports.c.id)).scalars())


def begin_export(conn: Connection, export_id: UUID) -> None:
    """Record that an export runs."""
    conn.execute(update(exports).where(exports.c.id == export_id).values(state="running"))


def end_export(conn: Connection, export_id: UUID, state: str, **values: Any) -> bool:
    """Record how a running export ended, or that it waits again; False where it was withdrawn meanwhile."""
    running = update(exports).where(exports.c.id == export_id, exports.c.state == "running")
    finished_at = None if state == "queued" else func.clock_timestamp()
    return conn.execute(running.values(state=state, finished_at=finished_at, **values)).rowcount == 1


def old_exports(conn: Connection, days: int) -> list[UUID]:
    """Return the exports that ended more than so many days ago."""
    long_ago = func.clock_timestamp() - func.make_interval(0, 0, 0, days)
    return list(conn.execute(select(exports.c.id).where(exports.c.finished_at < long_ago)).scalars())


def drop_export(conn: Connection, export_id: UUID) -> None:
    """Delete an export's record."""
    conn.execute(delete(exports).where(exports.c.id == export_id))
