"""Published snapshots: written once, in the publishing transaction, and only read afterwards.

Charts and fragility follow in tables of their own, and notices where they are left out.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, get_args
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Connection,
    DateTime,
    FromClause,
    RowMapping,
    Select,
    case,
    false,
    func,
    insert,
    literal,
    select,
    text,
    update,
)
from sqlalchemy.dialects.postgresql import JSONB

from app.audit.queries import Head
from app.database.copying import copy_into
from app.database.ids import new_id
from app.database.notices import notify
from app.database.tables import (
    models,
    snapshot_annotators,
    snapshot_fragility,
    snapshot_models,
    snapshots,
)
from app.rating.settings import Standing

_EMPTY: dict[str, None] = {}
RANKS = ("rank", "best_rank", "worst_rank", "rank_set_best", "rank_set_worst")


def insert_snapshot(conn: Connection, values: Mapping[str, Any]) -> RowMapping:
    """Add a snapshot's own row and return its `id, number, published_at`."""
    notify(conn, "snapshots")
    statement = insert(snapshots).values(id=new_id(), published_at=func.clock_timestamp(), **values)
    statement = statement.returning(snapshots.c.id, snapshots.c.number, snapshots.c.published_at)
    return conn.execute(statement).mappings().one()


def insert_leaderboards(conn: Connection, snapshot_id: UUID, rows: Sequence[Mapping[str, Any]]) -> None:
    """Add the models of every leaderboard: rows of `snapshot_models` without the snapshot."""
    conn.execute(insert(snapshot_models), [{"snapshot_id": snapshot_id, **row} for row in rows])


def insert_matchups(conn: Connection, snapshot_id: UUID, pairs: Mapping[str, list[Any]]) -> None:
    """Add the pairs of models: columns of `snapshot_matchups`, of equal length, without the snapshot."""
    copy_into(conn, "snapshot_matchups", {"snapshot_id": str(snapshot_id), **pairs})


def add_notices(conn: Connection, snapshot_id: UUID, notices: Sequence[Mapping[str, Any]]) -> None:
    """Add to the notices of a published snapshot: about what was to be added to it later."""
    c = snapshots.c.diagnostics
    every = func.coalesce(c["warnings"], literal([], JSONB)).op("||")(literal(list(notices), JSONB))
    added = c.op("||")(func.jsonb_build_object("warnings", every))
    conn.execute(update(snapshots).where(snapshots.c.id == snapshot_id).values(diagnostics=added))


def newest_snapshot(conn: Connection, as_of: datetime | None = None) -> RowMapping | None:
    """Return the snapshot published last, or last up to a time; None before the first."""
    statement = _select_whole().order_by(snapshots.c.number.desc()).limit(1)
    if as_of is not None:
        statement = statement.where(snapshots.c.published_at <= as_of)
    return conn.execute(statement).mappings().one_or_none()


def _select_whole() -> Select[Any]:
    """Select whole snapshots, with the fragility among the diagnostics once it is there."""
    c = snapshot_fragility.c
    stored = (
        select(func.jsonb_build_object("fragility", c.pairs, "fragility_of_best", c.best))
        .where(c.snapshot_id == snapshots.c.id)
        .scalar_subquery()
    )
    both = snapshots.c.diagnostics.op("||", return_type=JSONB())(func.coalesce(stored, literal(_EMPTY, JSONB)))
    columns = [column for column in snapshots.c if column.name != "diagnostics"]
    return select(*columns, both.label("diagnostics"))


def newest_number(conn: Connection) -> int:
    """Return the number of the snapshot published last; 0 before the first."""
    newest: int = conn.execute(select(func.coalesce(func.max(snapshots.c.number), 0))).scalar_one()
    return newest


def get_snapshot(conn: Connection, named: UUID | int) -> RowMapping | None:
    """Return the snapshot with this id or this number, or None."""
    column = snapshots.c.number if isinstance(named, int) else snapshots.c.id
    return conn.execute(_select_whole().where(column == named)).mappings().one_or_none()


def list_snapshots(conn: Connection, *, limit: int, before: int | None) -> Sequence[RowMapping]:
    """Return snapshots, the newest first, those with a number below `before`."""
    statement = _select_whole().order_by(snapshots.c.number.desc()).limit(limit)
    if before is not None:
        statement = statement.where(snapshots.c.number < before)
    return conn.execute(statement).mappings().all()


_SPREAD = text(
    """
    SELECT number, published_at
    FROM (
        SELECT number, published_at, row_number() OVER (ORDER BY number DESC) - 1 AS place, count(*) OVER () AS total
        FROM snapshots
    ) AS numbered
    WHERE place % ((total + :most - 1) / :most) = 0
    ORDER BY number
    """
)


def list_times(conn: Connection, *, most: int) -> Sequence[RowMapping]:
    """Return `number` and `published_at` of at most so many snapshots, spread evenly, the oldest first."""
    return conn.execute(_SPREAD, {"most": most}).mappings().all()


def list_audit_heads(conn: Connection) -> list[tuple[int, Head]]:
    """Return the audit log's head that each snapshot was published with, and the snapshot's number."""
    head = snapshots.c.diagnostics["audit"]
    statement = select(snapshots.c.number, head["number"].as_integer(), head["hash"].as_string())
    rows = conn.execute(statement.where(head["number"].as_integer().is_not(None)).order_by(snapshots.c.number))
    return [(number, Head(entry, bytes.fromhex(digest))) for number, entry, digest in rows]


def read_held(conn: Connection, snapshot_id: UUID) -> dict[int, str]:
    """Return the annotators that only the release margin keeps flagged or excluded, and which of the two.

    Where the annotators' rows are pruned, all count as excluded: without exclusion it does not matter.
    """
    held = conn.execute(select(snapshots.c.held).where(snapshots.c.id == snapshot_id)).scalar_one()
    c = snapshot_annotators.c
    standings = select(c.annotator_id, c.rule_standing).where(c.snapshot_id == snapshot_id, c.annotator_id.in_(held))
    return dict.fromkeys(held, "excluded") | dict(conn.execute(standings).all())


def read_past_judges(conn: Connection, snapshot_id: UUID) -> list[int]:
    """Return the annotators who were judges at a snapshot's refit."""
    judges = select(snapshots.c.judges).where(snapshots.c.id == snapshot_id)
    return list(conn.execute(judges).scalar_one())


def read_past_unreleased(conn: Connection, snapshot_id: UUID) -> list[int]:
    """Return the models that were unreleased at a snapshot's refit."""
    return list(conn.execute(select(snapshots.c.unreleased).where(snapshots.c.id == snapshot_id)).scalar_one())


def list_leaderboards(conn: Connection, snapshot_id: UUID) -> list[tuple[str, str]]:
    """Return the (method, tag) of every leaderboard of a snapshot, by method and tag; "" means all votes."""
    c = snapshot_models.c
    statement = select(c.method, c.tag).where(c.snapshot_id == snapshot_id).distinct()
    return sorted((row.method, row.tag) for row in conn.execute(statement))


def placed_columns() -> list[ColumnElement[Any]]:
    """Return the columns of `snapshot_models` as published: a provisional model has no ranks.

    The stored `rank` of such a model is for order alone, and so is that of a model without a score and without a class:
    earlier versions, and boards without intervals, do not say how sure it is.
    """
    c = snapshot_models.c
    ranked = (c.identified | c.class_rank.is_not(None)) & ~c.provisional
    shown = [column for column in c if column.name != "above"]  # `app.snapshots.differences` reads it
    return [case((ranked, column)).label(column.name) if column.name in RANKS else column for column in shown]


def is_archived(snapshot_id: UUID, of: FromClause = models) -> ColumnElement[bool]:
    """Return whether a snapshot's leaderboards hide a model, a row of `of`, because it is archived.

    An earlier snapshot than the newest shows the models that were archived after its publication, as it did then.
    """
    c, newest = snapshots.c, select(func.max(snapshots.c.number)).scalar_subquery()
    until = case((c.number < newest, c.published_at), else_=literal("infinity", DateTime(timezone=True)))
    return func.coalesce(of.c.archived_at <= select(until).where(c.id == snapshot_id).scalar_subquery(), false())


def list_placed_models(
    conn: Connection, snapshot_id: UUID, method: str = "am-elo", tag: str = "", *, with_hidden: bool = False
) -> Sequence[RowMapping]:
    """Return the models of one leaderboard, by component, rank and name; those without a rank last.

    Each row has `model`, `placed_columns`, what is known of the model, and whether it is `archived` and `unreleased`:
    such models are there only `with_hidden`, and no public answer may name them. `place` is for order alone.
    """
    c, archived, unreleased = snapshot_models.c, is_archived(snapshot_id), models.c.unreleased
    known = models.c.organization, models.c.license, models.c.link, archived.label("archived"), unreleased
    statement = (
        select(models.c.name.label("model"), *placed_columns(), c.rank.label("place"), *known)
        .join_from(snapshot_models, models)
        .where(c.snapshot_id == snapshot_id, c.method == method, c.tag == tag)
        .order_by(c.component, c.rank, models.c.name.collate("C"))
    )
    return conn.execute(statement if with_hidden else statement.where(~archived, ~unreleased)).mappings().all()


def list_counted_annotators(conn: Connection, snapshot_id: UUID) -> Sequence[int]:
    """Return the numbers of the annotators whose votes count in a snapshot.

    Not those with an ability: an annotator whose votes are all on models without a score counts and has none.
    """
    c = snapshot_annotators.c
    inside = c.snapshot_id == snapshot_id, c.standing.not_in(("pending", "excluded"))
    return conn.execute(select(c.annotator_id).where(*inside)).scalars().all()


def read_models(conn: Connection, snapshot_id: UUID) -> Sequence[RowMapping]:
    """Return every method's models as they were inserted."""
    return conn.execute(select(snapshot_models).where(snapshot_models.c.snapshot_id == snapshot_id)).mappings().all()


def read_annotators(conn: Connection, snapshot_id: UUID) -> Sequence[RowMapping]:
    """Return the annotators as they were inserted, with the standing that holds in place of the override.

    An old snapshot, which keeps few of its rows, has none.
    """
    whole = select(snapshots.c.id).where(snapshots.c.id == snapshot_id, snapshots.c.crowd_pruned_at.is_(None))
    c = snapshot_annotators.c
    return conn.execute(select(snapshot_annotators).where(c.snapshot_id.in_(whole))).mappings().all()


def count_standings(conn: Connection, snapshot_id: UUID) -> dict[Standing, dict[str, int]]:
    """Return `annotators`, a number, and their `votes` by standing; every standing is there, with zeros."""
    c = snapshot_annotators.c
    statement = select(c.standing, func.count(), func.sum(c.votes)).where(c.snapshot_id == snapshot_id)
    rows = conn.execute(statement.group_by(c.standing))
    found = {standing: {"annotators": number, "votes": int(votes)} for standing, number, votes in rows}
    return {name: found.get(name, {"annotators": 0, "votes": 0}) for name in get_args(Standing)}
