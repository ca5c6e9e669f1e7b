"""Annotators who push, or bury, the same model."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, RowMapping, Select, func, literal, or_, select, union_all
from sqlalchemy.sql.base import ReadOnlyColumnCollection

from app.annotators.queries import NEWEST
from app.annotators.standings import standing_of
from app.database.tables import annotators, snapshot_annotators
from app.rating.settings import TASTE_TESTS

_LEAST = 2


def list_members(
    conn: Connection, bar: float, *, test: str | None = None, model: str | None = None
) -> Sequence[RowMapping]:
    """Return the members of groups, of all or of one, the likeliest first.

    `test, model, annotator_id, id, annotator, log10_ratio, votes`.

    `bar`: ratio from which a test flags.
    """
    members = _members(bar).subquery()
    statement = select(members).where(members.c.size >= _LEAST)
    if test is not None:
        statement = statement.where(members.c.test == test, members.c.model == model)
    order = members.c.test, members.c.model, members.c.log10_ratio.desc(), members.c.annotator_id
    return conn.execute(statement.order_by(*order)).mappings().all()


def outside_groups(bar: float) -> Callable[[ReadOnlyColumnCollection[str, Any]], ColumnElement[bool]]:
    """Return the choice of annotators that are in no group."""
    members = _members(bar).subquery()
    inside = select(members.c.annotator_id).where(members.c.size >= _LEAST)
    return lambda found: found.annotator_id.not_in(inside)


def _members(bar: float) -> Select[Any]:
    """Return flagged annotators that a test about a model flags or finds; `size` counts those on the same model."""
    c, a = snapshot_annotators.c, annotators.c
    found = []
    for test in TASTE_TESTS:
        ratio, model = c.evidence["tests"][test].as_float(), c.evidence["about"][test].as_string()
        found.append(
            select(
                literal(test).label("test"),
                model.label("model"),
                a.id.label("annotator_id"),
                a.public_id.label("id"),
                a.key.label("annotator"),
                ratio.label("log10_ratio"),
                c.votes,
            )
            .join_from(snapshot_annotators, annotators, a.id == c.annotator_id)
            .where(
                c.snapshot_id == NEWEST,
                standing_of(a.rule_standing, a.override, a.dismissed_below) == "flagged",
                model.is_not(None),
                or_(ratio >= math.log10(bar), c.evidence["rule"].as_string() == test),
            )
        )
    members = union_all(*found).subquery()
    size = func.count().over(partition_by=(members.c.test, members.c.model))
    return select(members, size.label("size"))
