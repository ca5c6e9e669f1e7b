"""The standings of annotators: how one follows from the rule and the decisions, and how a snapshot changes them."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Double,
    FromClause,
    Integer,
    MetaData,
    RowMapping,
    Table,
    Text,
    and_,
    case,
    cast,
    func,
    insert,
    literal,
    not_,
    or_,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.types import TypeEngine

from app.database.arrays import table_of_arrays
from app.database.copying import copy_into
from app.database.tables import annotators, snapshot_annotators

Columns = Mapping[str, list[Any]]
"""What a refit found about annotators, as columns of equal length.

`annotator_id, ability, se, shadow_ability, shadow_se, probability_low, votes, rule_standing`; `HABITS`; `override`, as
the refit read it; `strength`, log10 of the strongest evidence; `evidence` and `leans`, JSON texts.
"""

HABITS = ("adjusted_ability", "adjusted_se", "tie_log", "tie_se", "side_lean", "side_lean_se")

_TYPES: dict[str, TypeEngine[Any]] = {
    "annotator_id": Integer(),
    **{name: Double() for name in ("ability", "se", "shadow_ability", "shadow_se", "probability_low")},
    **{name: Double() for name in HABITS},
    "votes": BigInteger(),
    "rule_standing": Text(),
    "override": Text(),
    "strength": Double(),
    "evidence": Text(),
    "leans": Text(),
}


_OF_STANDING = ("annotator_id", "ability", "rule_standing", "override", "strength")

_FRESH = Table(
    "fresh_annotators",
    MetaData(),
    *(Column(name, kind) for name, kind in _TYPES.items()),
    prefixes=["TEMPORARY"],
    postgresql_on_commit="DROP",
)


def standing_of(
    rule_standing: ColumnElement[Any], override: ColumnElement[Any], dismissed_below: ColumnElement[Any]
) -> ColumnElement[str]:
    """Return the standing that holds. This is the one place that defines it.

    An override wins over the rule. With too few votes the annotator is pending, unless excluded by a decision. A
    dismissed flag counts as active; publishing removes the dismissal once the evidence is worse.
    """
    return case(
        (override == "excluded", "excluded"),
        (rule_standing == "pending", "pending"),
        (override.is_not(None), override),
        (and_(rule_standing == "flagged", dismissed_below.is_not(None)), "active"),
        else_=rule_standing,
    )


def read_standings(conn: Connection) -> list[tuple[int, str | None, str]]:
    """Return `id`, `override` and `rule_standing` of every annotator, by id."""
    columns = annotators.c.id, annotators.c.override, annotators.c.rule_standing
    rows = conn.execute(select(*columns).order_by(annotators.c.id)).all()
    return [(number, override, rule_standing) for number, override, rule_standing in rows]


def insert_snapshot_annotators(conn: Connection, snapshot_id: UUID, found: Columns) -> None:
    """Add a snapshot's annotators, with the standing that they have after `update_standings`."""
    _FRESH.create(conn)
    copy_into(conn, _FRESH.name, found)
    columns = [_FRESH.c[name] for name in _TYPES if name not in ("override", "strength", "evidence", "leans")]
    documents = cast(_FRESH.c.evidence, JSONB), cast(_FRESH.c.leans, JSONB)
    rows = select(literal(snapshot_id), *columns, *documents, _standing_after(_FRESH))
    rows = rows.join_from(_FRESH, annotators, annotators.c.id == _FRESH.c.annotator_id)
    targets = ["snapshot_id", *(c.name for c in columns), "evidence", "leans", "standing"]
    conn.execute(insert(snapshot_annotators).from_select(targets, rows))


def update_standings(conn: Connection, snapshot_id: UUID) -> None:
    """Copy the rule's standings from a snapshot to the annotators' own rows, and reopen flags that were dismissed.

    Annotators without votes in the snapshot become pending.
    """
    c = snapshot_annotators.c
    here = and_(c.snapshot_id == snapshot_id, c.annotator_id == annotators.c.id)
    reopened = _reopened(c.rule_standing, c.ability, c.evidence["strength"].as_float())
    conn.execute(update(annotators).where(here, reopened).values(dismissed_below=None, dismissed_above=None))
    changed = annotators.c.rule_standing != c.rule_standing
    conn.execute(update(annotators).where(here, changed).values(rule_standing=c.rule_standing))
    # The flag of an annotator without votes would stay in the review queue for ever, with no evidence to show.
    gone = and_(annotators.c.rule_standing != "pending", not_(select(c.annotator_id).where(here).exists()))
    conn.execute(update(annotators).where(gone).values(rule_standing="pending"))


def list_standing_changes(conn: Connection, found: Columns, past: Columns | None = None) -> Sequence[RowMapping]:
    """Return the annotators whose standing a snapshot with these annotators would change, most votes first.

    `id, annotator, before, after, ability, shadow_ability, votes`.

    `past`: annotators of another snapshot that was not published, to compare with, as `standing_columns` returns them;
    None compares with the standings that hold now.
    """
    fresh = table_of_arrays(found, _TYPES)
    after = _standing_after(fresh)
    before = standing_of(annotators.c.rule_standing, annotators.c.override, annotators.c.dismissed_below)
    both = fresh.join(annotators, annotators.c.id == fresh.c.annotator_id)
    if past is not None:
        other = table_of_arrays(past, {name: _TYPES[name] for name in _OF_STANDING}, "past")
        both = both.outerjoin(other, other.c.annotator_id == fresh.c.annotator_id)
        before = func.coalesce(_standing_after(other), before)
    statement = (
        select(
            annotators.c.public_id.label("id"),
            annotators.c.key.label("annotator"),
            before.label("before"),
            after.label("after"),
            fresh.c.ability,
            fresh.c.shadow_ability,
            fresh.c.votes,
        )
        .select_from(both)
        .where(before != after)
        .order_by(fresh.c.votes.desc(), annotators.c.id)
    )
    return conn.execute(statement).mappings().all()


def standing_columns(found: Columns) -> Columns:
    """Return the columns on which standings depend."""
    return {name: found[name] for name in _OF_STANDING}


def _standing_after(fresh: FromClause) -> ColumnElement[str]:
    reopened = _reopened(fresh.c.rule_standing, fresh.c.ability, fresh.c.strength)
    dismissed: ColumnElement[Any] = case((reopened, None), else_=annotators.c.dismissed_below)
    return standing_of(fresh.c.rule_standing, fresh.c.override, dismissed)


def _reopened(
    rule_standing: ColumnElement[Any], ability: ColumnElement[Any], strength: ColumnElement[Any]
) -> ColumnElement[bool]:
    """Whether a dismissed flag opens again: the evidence is materially worse than when it was dismissed."""
    worse = or_(ability < annotators.c.dismissed_below, strength > annotators.c.dismissed_above)
    return and_(rule_standing == "flagged", annotators.c.dismissed_below.is_not(None), worse)
