"""Annotators with their figures in snapshots, decisions, and what decisions change on their rows."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Connection,
    Double,
    Label,
    RowMapping,
    and_,
    distinct,
    exists,
    func,
    insert,
    literal,
    literal_column,
    null,
    or_,
    select,
    tuple_,
    union,
    update,
)
from sqlalchemy.sql import Select

from app.annotators.standings import standing_of
from app.database.ids import new_id
from app.database.tables import annotators, decisions, snapshot_annotators, snapshots, votes
from app.models.contestants import read_contestants
from app.rating.settings import EVEN_ODDS
from app.snapshots.vote_sets import is_retracted, seen_by, unseen_by

_LAST_CHARACTER: Final = "\U0010ffff"
_QUANTILE: Final = 1.959964  # of the normal distribution, for 95 %
NEWEST: Final = select(snapshots.c.id).order_by(snapshots.c.number.desc()).limit(1).scalar_subquery()
"""The id of the newest snapshot."""
EVIDENCE: Final[Label[float]] = func.coalesce(
    snapshot_annotators.c.ability, snapshot_annotators.c.shadow_ability, literal_column("'Infinity'::double precision")
).label("evidence")
"""The ability or, outside the fit, the shadow ability; infinity where neither is known."""
_MAX_LOG10_ODDS: Final = 16.0  # a float has no more digits


def list_annotators(
    conn: Connection,
    *,
    standing: str | None,
    keys: Sequence[str] | None,
    limit: int,
    after: tuple[float, int] | None,
) -> Sequence[RowMapping]:
    """Return annotators with their figures in the newest snapshot, the lowest ability first.

    `after`: (evidence, annotator_id) of the last row of the page before; `evidence` is the ability or, outside the fit,
    the shadow ability, and infinity where neither is known.
    """
    if standing is None and keys is None:
        found = _page(conn, limit, after)
    else:
        rows = with_newest_figures().subquery()
        some = select(rows.c.annotator_id).order_by(rows.c.evidence, rows.c.annotator_id).limit(limit)
        if standing is not None:
            some = some.where(rows.c.standing == standing)
        if keys is not None:
            some = some.where(rows.c.annotator.in_(keys))
        if after is not None:
            some = some.where(tuple_(rows.c.evidence, rows.c.annotator_id) > after)
        found = list(conn.execute(some).scalars())
    # The figures are looked up for this page alone: for all annotators they take longer than the sorting.
    statement = with_newest_figures().where(annotators.c.id.in_(found)).order_by("evidence", annotators.c.id)
    return conn.execute(statement).mappings().all()


def _page(conn: Connection, limit: int, after: tuple[float, int] | None) -> list[int]:
    """Return the annotators of a page, in any order: by the index of their evidence, then those without figures."""
    c = snapshot_annotators.c
    inside = select(c.annotator_id, EVIDENCE).where(c.snapshot_id == NEWEST).order_by(EVIDENCE, c.annotator_id)
    if after is not None:
        inside = inside.where(tuple_(EVIDENCE, c.annotator_id) > after)
    found = conn.execute(inside.limit(limit)).all()
    if len(found) == limit and found[-1].evidence < math.inf:
        return [one.annotator_id for one in found]
    here = exists().where(c.snapshot_id == NEWEST, c.annotator_id == annotators.c.id)
    outside = select(annotators.c.id).where(~here).order_by(annotators.c.id).limit(limit)
    if after is not None and after[0] == math.inf:
        outside = outside.where(annotators.c.id > after[1])
    without = [(math.inf, one) for one in conn.execute(outside).scalars()]
    return [one for _, one in sorted([(one.evidence, one.annotator_id) for one in found] + without)[:limit]]


def search_annotators(
    conn: Connection, *, beginning: str, standing: str | None, limit: int, after: str | None
) -> Sequence[RowMapping]:
    """Return annotators whose key begins with this text, by key, as `list_annotators` does; keys after `after`."""
    key = annotators.c.key  # of the collation "C": its index has the keys in the order of their bytes
    found = select(annotators.c.id).where(key >= beginning, key < beginning + _LAST_CHARACTER)
    if standing is not None:
        c = annotators.c
        found = found.where(standing_of(c.rule_standing, c.override, c.dismissed_below) == standing)
    if after is not None:
        found = found.where(key > after)
    here = annotators.c.id.in_(found.order_by(key).limit(limit))
    return conn.execute(with_newest_figures().where(here).order_by(key)).mappings().all()


def find_annotator(conn: Connection, *, public_id: UUID | None, keys: Sequence[str]) -> RowMapping | None:
    """Return the annotator with this public id or, if there is none, with one of these keys."""
    matches: ColumnElement[bool] = annotators.c.key.in_(keys)
    if public_id is not None:
        matches = or_(annotators.c.public_id == public_id, matches)
    order = (annotators.c.public_id == public_id).desc()
    statement = with_newest_figures().where(matches).order_by(order).limit(1)
    return conn.execute(statement).mappings().one_or_none()


def summarise_votes(conn: Connection, annotator_id: int, *, without: Collection[UUID] = ()) -> RowMapping:
    """Count the annotator's votes: by outcome, models, retracted votes; with the times of the first and the last.

    A ranking has no sides, and no outcome is its own.
    `without`: votes that are left out.
    """
    c = votes.c
    mine = and_(c.annotator_id == annotator_id, c.id.not_in(list(without)))
    contestants = read_contestants(conn)
    model_a, model_b = contestants.sides()
    sides = union(
        select(model_a.label("model_id")).where(mine),
        select(model_b).where(mine),
        select(contestants.ranked()).select_from(votes).where(mine, c.ranking.is_not(None)),
    ).subquery()
    counts = [
        func.count().filter(c.outcome == code, c.ranking.is_(None)).label(name)
        for code, name in enumerate(("model_a", "model_b", "tie", "tie_bothbad"))
    ]
    statement = select(
        func.count().label("votes"),
        *counts,
        select(func.count(distinct(sides.c.model_id))).scalar_subquery().label("models"),
        func.count().filter(is_retracted(c.id)).label("retracted"),
        func.min(c.received_at).label("first_received_at"),
        func.max(c.received_at).label("last_received_at"),
    )
    statement = statement.select_from(votes).where(mine)
    return conn.execute(statement).mappings().one()


def list_history(conn: Connection, annotator_id: int, *, limit: int, before: int | None) -> Sequence[RowMapping]:
    """Return the annotator's figures in past snapshots, the newest first, those with a number below `before`."""
    c = snapshot_annotators.c
    statement = (
        select(
            snapshots.c.id.label("snapshot_id"),
            snapshots.c.number,
            snapshots.c.published_at,
            *_figures(),
            c.votes,
            c.rule_standing,
            c.standing,
        )
        .join_from(snapshot_annotators, snapshots, snapshots.c.id == c.snapshot_id)
        .where(c.annotator_id == annotator_id)
        .order_by(snapshots.c.number.desc())
        .limit(limit)
    )
    if before is not None:
        statement = statement.where(snapshots.c.number < before)
    return conn.execute(statement).mappings().all()


def lock_annotators(conn: Connection, annotator_ids: Sequence[int]) -> None:
    """Lock rows until this transaction ends, so that decisions on an annotator are taken one after the other.

    It is done in the same order always, so that two callers do not wait for each other.
    """
    statement = select(annotators.c.id).where(annotators.c.id.in_(annotator_ids)).order_by(annotators.c.id)
    conn.execute(statement.with_for_update(key_share=True))


def set_override(
    conn: Connection, annotator_id: int, override: str | None, *, below: float | None = None, above: float | None = None
) -> None:
    """Set or remove the override of the rule; either way an earlier dismissal ends.

    With `below` and `above` the open flag is closed until the ability falls below the one, or log10 of the evidence
    rises above the other.
    """
    statement = update(annotators).where(annotators.c.id == annotator_id)
    conn.execute(statement.values(override=override, dismissed_below=below, dismissed_above=above))


def with_newest_figures() -> Select[Any]:
    """Return a statement of all annotators with their figures in the newest snapshot, null where they are not in it.

    `rule` is what flags: "ability" or a test. `reason_strength` is a logarithm to base 10 of odds: a hundredth of the
    strongest test's ratio, or the odds that the ability is at or below ε, whichever is larger; 0 for neither.
    """
    figures = snapshot_annotators
    here = and_(figures.c.annotator_id == annotators.c.id, figures.c.snapshot_id == NEWEST)
    low, strength = figures.c.probability_low, figures.c.evidence["strength"].as_float()
    least = literal(10.0**-_MAX_LOG10_ODDS, Double)
    odds = func.log(func.greatest(low, least) / func.greatest(1.0 - low, least))
    return select(
        annotators.c.id.label("annotator_id"),
        annotators.c.public_id.label("id"),
        annotators.c.key.label("annotator"),
        figures.c.snapshot_id,
        *_figures(),
        func.coalesce(figures.c.votes, 0).label("votes"),
        standing_of(annotators.c.rule_standing, annotators.c.override, annotators.c.dismissed_below).label("standing"),
        annotators.c.rule_standing,
        annotators.c.override,
        annotators.c.kind,
        annotators.c.dismissed_below,
        strength.label("strength"),
        figures.c.evidence["rule"].as_string().label("rule"),
        func.greatest(strength - math.log10(EVEN_ODDS), odds, literal(0.0, Double)).label("reason_strength"),
        annotators.c.erased_at,
        EVIDENCE,
    ).outerjoin_from(annotators, figures, here)


def _figures() -> Iterator[ColumnElement[Any]]:
    """Yield what a snapshot stores of an annotator's ability, with the ends of 95 % intervals."""
    c = snapshot_annotators.c
    yield from (c[name] for name in ("ability", "se", "shadow_ability", "shadow_se", "probability_low"))
    yield from (c.adjusted_ability, c.side_lean, c.leans)
    for name, estimate, se in (
        ("ability", c.ability, c.se),
        ("shadow", c.shadow_ability, c.shadow_se),
        ("adjusted", c.adjusted_ability, c.adjusted_se),
        ("side_lean", c.side_lean, c.side_lean_se),
    ):
        yield (estimate - _QUANTILE * se).label(f"{name}_lower")
        yield (estimate + _QUANTILE * se).label(f"{name}_upper")
    for end, width in (("", 0.0), ("_lower", -_QUANTILE), ("_upper", _QUANTILE)):
        even = func.exp(c.tie_log + width * c.tie_se)  # between equals: won, tied and lost as 1 : even : 1
        yield (even / (even + 2.0)).label(f"tie_readiness{end}")


def insert_decision(conn: Connection, values: Mapping[str, Any]) -> RowMapping:
    """Add a decision and return it."""
    statement = insert(decisions).values(id=new_id(), decided_at=func.clock_timestamp(), **values)
    return conn.execute(statement.returning(decisions)).mappings().one()


def last_actions(conn: Connection, vote_set: str) -> dict[int, str]:
    """Return each annotator's last decision, its action alone, among those that the set's transactions recorded."""
    c = decisions.c
    statement = select(c.annotator_id, c.action).where(seen_by(c.recorded_in, vote_set))
    rows = conn.execute(statement.order_by(c.decided_at, c.id))
    return {row.annotator_id: row.action for row in rows}  # of several, the last stays


def read_decided_since(conn: Connection, vote_set: str) -> list[tuple[int, str]]:
    """Return the annotators with decisions that the set's transactions did not see, and the standing that holds now."""
    c = annotators.c
    decided = select(decisions.c.annotator_id).where(unseen_by(decisions.c.recorded_in, vote_set))
    # A dismissal hides a flag from reviewers; the fit does not know of it.
    columns = c.id, standing_of(c.rule_standing, c.override, null())
    return [
        (number, standing)
        for number, standing in conn.execute(select(*columns).where(c.id.in_(decided)).order_by(c.id))
    ]


def list_group(conn: Connection, group_id: UUID) -> Sequence[RowMapping]:
    """Return `annotator_id`, `public_id` and `id` of the decisions that were taken on a group at once."""
    c = decisions.c
    statement = select(c.annotator_id, annotators.c.public_id, c.id).join_from(decisions, annotators)
    return conn.execute(statement.where(c.group_id == group_id).order_by(c.annotator_id)).mappings().all()


def list_decisions(conn: Connection, annotator_id: int) -> Sequence[RowMapping]:
    """Return the decisions on one annotator, the newest first."""
    statement = select(decisions).where(decisions.c.annotator_id == annotator_id)
    return conn.execute(statement.order_by(decisions.c.decided_at.desc(), decisions.c.id.desc())).mappings().all()
