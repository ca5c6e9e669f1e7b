"""Annotators as the loop and the reviewers see them: the rule's verdict, the override, and what follows from both."""

from collections.abc import Iterator, Sequence
from typing import Any, Final
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Connection,
    Label,
    RowMapping,
    and_,
    case,
    distinct,
    func,
    literal,
    or_,
    select,
    tuple_,
    union,
    update,
)
from sqlalchemy.sql import Select

from app.database.tables import annotators, models, retracted_votes, snapshot_annotators, snapshots, votes
from app.review.queries import order_by_reason

_QUANTILE: Final = 1.959964  # of the normal distribution, for 95 %


def standing_of(
    rule_standing: ColumnElement[Any], override: ColumnElement[Any], dismissed_below: ColumnElement[Any]
) -> ColumnElement[str]:
    """Return the effective standing, the one place where it is defined.

    The override where there is one, except that nothing but an exclusion touches who has too few votes; an open
    flag that was dismissed shows as active (publishing clears the dismissal once the evidence is worse).
    """
    return case(
        (override == "excluded", "excluded"),
        (rule_standing == "pending", "pending"),
        (override.is_not(None), override),
        (and_(rule_standing == "flagged", dismissed_below.is_not(None)), "active"),
        else_=rule_standing,
    )


def read_crowd(conn: Connection) -> list[tuple[int, str | None, str]]:
    """Return every annotator's `id`, `override` and `rule_standing`, by id."""
    columns = annotators.c.id, annotators.c.override, annotators.c.rule_standing
    rows = conn.execute(select(*columns).order_by(annotators.c.id))
    return [(row.id, row.override, row.rule_standing) for row in rows]


def read_model_ids(conn: Connection) -> Sequence[int]:
    """Return the id of every model, in order."""
    return conn.execute(select(models.c.id).order_by(models.c.id)).scalars().all()


def list_annotators(
    conn: Connection,
    *,
    standing: str | None,
    keys: Sequence[str] | None,
    limit: int,
    after: tuple[float, int] | None,
) -> Sequence[RowMapping]:
    """Return annotators with their figures in the newest snapshot, the worst ability first.

    Each row's `position` is what `after` takes: (ability or shadow ability, infinite where neither is known; id).
    """
    rows = _with_newest_figures().subquery()
    statement = select(rows).order_by(rows.c.evidence, rows.c.annotator_id).limit(limit)
    if standing is not None:
        statement = statement.where(rows.c.standing == standing)
    if keys is not None:
        statement = statement.where(rows.c.annotator.in_(keys))
    if after is not None:
        statement = statement.where(tuple_(rows.c.evidence, rows.c.annotator_id) > after)
    return conn.execute(statement).mappings().all()


def list_by_reason(
    conn: Connection, *, standing: str, limit: int, after: tuple[float, int] | None
) -> Sequence[RowMapping]:
    """Return annotators of a standing as `list_annotators` does, the strongest reason first, with `reason_strength`."""
    statement = order_by_reason(_with_newest_figures(), standing=standing, limit=limit, after=after)
    return conn.execute(statement).mappings().all()


def find_annotator(conn: Connection, *, public_id: UUID | None, keys: Sequence[str]) -> RowMapping | None:
    """Return the annotator with this public id or, failing that, one of these keys, as `list_annotators` does."""
    matches: ColumnElement[bool] = annotators.c.key.in_(keys)
    if public_id is not None:
        matches = or_(annotators.c.public_id == public_id, matches)
    order = (annotators.c.public_id == public_id).desc()
    statement = _with_newest_figures().where(matches).order_by(order).limit(1)
    return conn.execute(statement).mappings().one_or_none()


def summarise_votes(conn: Connection, annotator_id: int) -> RowMapping:
    """Return what the annotator has voted so far: counts per outcome, of models, of void votes; first and last."""
    c = votes.c
    mine = c.annotator_id == annotator_id
    sides = union(select(c.model_a_id.label("model_id")).where(mine), select(c.model_b_id).where(mine)).subquery()
    counts = [
        func.count().filter(c.outcome == code).label(name)
        for code, name in enumerate(("model_a", "model_b", "tie", "tie_bothbad"))
    ]
    statement = select(
        func.count().label("votes"),
        *counts,
        select(func.count(distinct(sides.c.model_id))).scalar_subquery().label("models"),
        func.count(retracted_votes.c.vote_id).label("retracted"),
        func.min(c.received_at).label("first_received_at"),
        func.max(c.received_at).label("last_received_at"),
    )
    statement = statement.select_from(votes.outerjoin(retracted_votes, retracted_votes.c.vote_id == c.id)).where(mine)
    return conn.execute(statement).mappings().one()


def list_history(conn: Connection, annotator_id: int, *, limit: int, before: int | None) -> Sequence[RowMapping]:
    """Return the annotator's figures in past snapshots, the newest first, those with a number below `before`."""
    c = snapshot_annotators.c
    statement = (
        select(
            snapshots.c.id.label("snapshot_id"), snapshots.c.number, snapshots.c.published_at,
            *_figures(), c.votes, c.rule_standing, c.standing,
        )
        .join_from(snapshot_annotators, snapshots)
        .where(c.annotator_id == annotator_id)
        .order_by(snapshots.c.number.desc())
        .limit(limit)
    )  # fmt: skip
    if before is not None:
        statement = statement.where(snapshots.c.number < before)
    return conn.execute(statement).mappings().all()


def lock_annotator(conn: Connection, annotator_id: int) -> None:
    """Let decisions on one annotator follow one another."""
    statement = select(annotators.c.id).where(annotators.c.id == annotator_id)
    conn.execute(statement.with_for_update(key_share=True))


def set_override(conn: Connection, annotator_id: int, override: str | None) -> None:
    """Put a decision above the rule, or none; either way an earlier dismissal is over."""
    statement = update(annotators).where(annotators.c.id == annotator_id)
    conn.execute(statement.values(override=override, dismissed_below=None, dismissed_above=None))


def set_dismissal(conn: Connection, annotator_id: int, *, below: float, above: float | None) -> None:
    """Close the open flag until the ability falls below this, or log10 of the evidence rises above that."""
    statement = update(annotators).where(annotators.c.id == annotator_id)
    conn.execute(statement.values(override=None, dismissed_below=below, dismissed_above=above))


def _with_newest_figures() -> Select[Any]:
    newest = select(snapshots.c.id).order_by(snapshots.c.number.desc()).limit(1).scalar_subquery()
    figures = snapshot_annotators
    here = and_(figures.c.annotator_id == annotators.c.id, figures.c.snapshot_id == newest)
    evidence: Label[float] = func.coalesce(figures.c.ability, figures.c.shadow_ability, literal(float("inf"))).label(
        "evidence"
    )
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
        annotators.c.dismissed_below,
        figures.c.evidence["strength"].as_float().label("strength"),
        annotators.c.erased_at,
        evidence,
    ).outerjoin_from(annotators, figures, here)


def _figures() -> Iterator[ColumnElement[Any]]:
    """Yield what a snapshot says of an annotator's ability, with the ends of 95 % intervals."""
    c = snapshot_annotators.c
    yield from (c[name] for name in ("ability", "se", "shadow_ability", "shadow_se", "probability_low"))
    for name, estimate, se in (("ability", c.ability, c.se), ("shadow", c.shadow_ability, c.shadow_se)):
        yield (estimate - _QUANTILE * se).label(f"{name}_lower")
        yield (estimate + _QUANTILE * se).label(f"{name}_upper")
