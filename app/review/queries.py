"""What reviewers see: annotators' votes, appeals, and the newest snapshot's models and annotators."""

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import (
    ColumnElement,
    Connection,
    Double,
    RowMapping,
    and_,
    case,
    cast,
    exists,
    func,
    insert,
    literal,
    or_,
    select,
    true,
    tuple_,
    union_all,
)
from sqlalchemy.sql import Select
from sqlalchemy.sql.base import ReadOnlyColumnCollection

from app.annotators.queries import NEWEST, with_newest_figures
from app.database.ids import new_id
from app.database.tables import (
    annotators,
    appeals,
    decisions,
    models,
    retracted_votes,
    snapshot_annotators,
    snapshots,
    votes,
)
from app.models.contestants import AS_RECORDED, Contestants, read_contestants
from app.snapshots.units import VOTES_READ
from app.snapshots.vote_sets import is_retracted
from app.votes.queries import battle_of, ranking_of
from app.votes.rules import pairs_of

_OTHERS, _VOTES_OF_OTHERS = 100, 200  # annotators whose pace is compared, and how many votes of each


def list_votes(
    conn: Connection,
    annotator_id: int,
    *,
    limit: int,
    before: UUID | None,
    contestants: Contestants = AS_RECORDED,
    without: Collection[UUID] = (),
) -> Sequence[RowMapping]:
    """Return the annotator's votes, the one recorded last first, those with an id below `before`, `without` some.

    `id, battle_id, criterion, model_a_id, model_b_id, model_a, model_b, outcome, ranking, voted_at, received_at,
    imported, retracted, replaced`, with the models' current names, and the numbers of the models for which the votes
    count. Never the metadata, which may name a person.
    """
    model_a, model_b = models.alias("model_a"), models.alias("model_b")
    c = votes.c
    counts_a, counts_b = contestants.sides()
    replaced = select(retracted_votes.c.vote_id).where(
        retracted_votes.c.vote_id == c.id, retracted_votes.c.replaced_by.is_not(None)
    )
    statement = (
        select(
            *(c[name] for name in ("id", "criterion", "outcome", "voted_at", "received_at")),
            battle_of(),
            ranking_of(),
            counts_a.label("model_a_id"),
            counts_b.label("model_b_id"),
            model_a.c.name.label("model_a"),
            model_b.c.name.label("model_b"),
            c.import_id.is_not(None).label("imported"),
            and_(is_retracted(c.id), ~replaced.exists()).label("retracted"),
            replaced.exists().label("replaced"),
        )
        .join_from(votes, model_a, model_a.c.id == c.model_a_id)
        .join(model_b, model_b.c.id == c.model_b_id)
        .where(c.annotator_id == annotator_id, c.id.not_in(without))
        .order_by(c.id.desc())
        .limit(limit)
    )
    if before is not None:
        statement = statement.where(c.id < before)
    return conn.execute(statement).mappings().all()


def list_votes_on(
    conn: Connection, model_id: int, other_id: int, *, limit: int, before: UUID | None = None
) -> Sequence[RowMapping]:
    """Return the votes that count for two models, the one recorded last first, those with an id below `before`.

    `id, annotator, annotator_id, model_a, model_b, outcome, criterion, voted_at, received_at, retracted`, with the
    models' current names. Rankings are left out. It reads votes of other pairs until it has enough.
    """
    model_a, model_b, c = models.alias("model_a"), models.alias("model_b"), votes.c
    counts_a, counts_b = read_contestants(conn).sides()
    pair = or_(and_(counts_a == model_id, counts_b == other_id), and_(counts_a == other_id, counts_b == model_id))
    statement = (
        select(
            *(c[name] for name in ("id", "criterion", "outcome", "voted_at", "received_at")),
            annotators.c.key.label("annotator"),
            annotators.c.public_id.label("annotator_id"),
            model_a.c.name.label("model_a"),
            model_b.c.name.label("model_b"),
            is_retracted(c.id).label("retracted"),
        )
        .join_from(votes, annotators, annotators.c.id == c.annotator_id)
        .join(model_a, model_a.c.id == c.model_a_id)
        .join(model_b, model_b.c.id == c.model_b_id)
        .where(pair, c.ranking.is_(None))
        .order_by(c.id.desc())
        .limit(limit)
    )
    if before is not None:
        statement = statement.where(c.id < before)
    return conn.execute(statement).mappings().all()


def read_votes(
    conn: Connection, annotator_id: int, *, most: int, contestants: Contestants
) -> list[tuple[UUID, int, int, int, float | None, float | None, bool]]:
    """Return the annotator's overall votes that are not retracted, the last `most` on record, from one index.

    A ranking has a row for each pair.

    `id, model_a_id, model_b_id, outcome, voted, received, ranked`: the models for which the vote counts; when it was
    cast, as its sender said, and when a live vote arrived, in seconds since 1970, null where unknown; whether it is a
    ranking, whose pairs have no sides.
    """
    c = votes.c
    model_a, model_b = contestants.sides()
    statement = (
        select(
            c.id,
            model_a.label("model_a_id"),
            model_b.label("model_b_id"),
            c.outcome,
            *_times(c),
            c.ranking,
            func.coalesce(c.voted_at, c.received_at).label("cast_at"),
        )
        .where(c.annotator_id == annotator_id, c.criterion.is_(None), ~is_retracted(c.id))
        .order_by(c.id.desc())
        .limit(most)
    )
    found = []
    for vote_id, a, b, outcome, voted, received, ranking, cast_at in conn.execute(statement):
        pairs = [(a, b, outcome)] if ranking is None else pairs_of(ranking)
        sides = ((contestants.of(a, cast_at), contestants.of(b, cast_at), outcome) for a, b, outcome in pairs)
        found += [
            (vote_id, *pair, voted, received, ranking is not None) for pair in (pairs if ranking is None else sides)
        ]
    return found


def read_times_of_others(conn: Connection, annotator_id: int) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Return when other annotators' votes were cast and arrived, as `read_votes` does: one pair of arrays for each.

    They are the annotators that came to the arena just before and just after this one, each with the votes that were
    recorded last.
    """
    c = annotators.c
    before = select(c.id).where(c.id < annotator_id).order_by(c.id.desc()).limit(_OTHERS // 2)
    after = select(c.id).where(c.id > annotator_id).order_by(c.id).limit(_OTHERS // 2)
    others = union_all(before, after).subquery("others")
    v = votes.c
    recent = (
        select(*_times(v))
        .where(v.annotator_id == others.c.id)
        .order_by(v.id.desc())
        .limit(_VOTES_OF_OTHERS)
        .lateral("recent")
    )
    rows = conn.execute(select(others.c.id, recent.c.voted, recent.c.received).select_from(others.join(recent, true())))
    times: dict[int, list[tuple[float | None, float | None]]] = {}
    for number, voted, received in rows:
        times.setdefault(number, []).append((voted, received))
    return [(found[:, 0], found[:, 1]) for found in (np.array(pairs, np.float64) for pairs in times.values())]


def read_evidence(conn: Connection, snapshot_id: UUID, annotator_ids: Sequence[int]) -> dict[int, dict[str, Any]]:
    """Return what the snapshot's refit found against annotators, by number; only those with findings."""
    c = snapshot_annotators.c
    statement = select(c.annotator_id, c.evidence).where(
        c.snapshot_id == snapshot_id, c.annotator_id.in_(annotator_ids), c.evidence.is_not(None)
    )
    return {row.annotator_id: row.evidence for row in conn.execute(statement) if row.evidence}


Choice = Callable[[ReadOnlyColumnCollection[str, Any]], ColumnElement[bool]]
"""Chooses annotators by the columns of `with_newest_figures`."""


def flagged(found: ReadOnlyColumnCollection[str, Any]) -> ColumnElement[bool]:
    """Choose annotators with an open flag."""
    flagged: ColumnElement[bool] = found.standing == "flagged"
    return flagged


def one_of(public_ids: Sequence[UUID]) -> Choice:
    """Return the choice of the annotators with these ids."""
    return lambda found: found.id.in_(public_ids)


def watched(threshold: float | None) -> Choice:
    """Return the choice of annotators past δ that are at or below ε and have no flag.

    `threshold`: ε; None where it is not known, so that no annotator is at or below it.
    """

    def choose(found: ReadOnlyColumnCollection[str, Any]) -> ColumnElement[bool]:
        ability = func.coalesce(found.ability, found.shadow_ability)
        return and_(found.standing.in_(("active", "trusted")), ability <= literal(threshold, Double))

    return choose


def selected(found: ReadOnlyColumnCollection[str, Any], rule: str | None, min_share: float) -> ColumnElement[bool]:
    """Choose annotators that are flagged by this reason, None for any, and cast this share of the votes read."""
    by_rule = true() if rule is None else found.rule == rule
    if not min_share:
        return and_(true(), by_rule)
    read = select(VOTES_READ).where(snapshots.c.id == NEWEST).scalar_subquery()
    return and_(by_rule, found.votes >= min_share * read)


def list_queue(
    conn: Connection, choose: Choice, *, sort: str, limit: int, after: tuple[float | str, int] | None
) -> Sequence[RowMapping]:
    """Return chosen annotators as `list_annotators` does, from (what it is sorted by, number) on.

    Sorted by `strength`, the strongest reason first; by `votes`, the most first; by `date`, the newest annotator first;
    or by `name`.
    """
    found = with_newest_figures().subquery()
    number = found.c.annotator_id
    by = {"strength": -found.c.reason_strength, "votes": -found.c.votes, "date": -number, "name": found.c.annotator}[
        sort
    ]
    statement = select(found).where(choose(found.c)).order_by(by, number).limit(limit)
    if after is not None:
        statement = statement.where(tuple_(by, number) > after)
    return conn.execute(statement).mappings().all()


def count_queue(conn: Connection, **choices: Choice) -> RowMapping:
    """Count chosen annotators, by name; `strongest` is the strength of the strongest open flag, 0 without one."""
    found = with_newest_figures().subquery()
    counts = [func.count().filter(choose(found.c)).label(name) for name, choose in choices.items()]
    strongest = func.coalesce(func.max(found.c.reason_strength).filter(flagged(found.c)), 0.0)
    return conn.execute(select(*counts, strongest.label("strongest")).select_from(found)).mappings().one()


def _times(c: ReadOnlyColumnCollection[str, Any]) -> tuple[ColumnElement[float], ColumnElement[float]]:
    """Select when a vote was cast, as its sender said, and when a live vote arrived, in seconds since 1970."""
    voted, received = (cast(func.extract("epoch", moment), Double) for moment in (c.voted_at, c.received_at))
    return voted.label("voted"), case((c.import_id.is_(None), received)).label("received")


_later_decision = exists().where(
    decisions.c.annotator_id == appeals.c.annotator_id, decisions.c.decided_at > appeals.c.submitted_at
)


def insert_appeal(conn: Connection, annotator_id: int, note: str, submitted_by: str) -> RowMapping:
    """Add an appeal and return it, as `list_appeals` does."""
    appeal_id = new_id()
    values = {"annotator_id": annotator_id, "note": note, "submitted_by": submitted_by}
    conn.execute(insert(appeals).values(id=appeal_id, submitted_at=func.clock_timestamp(), **values))
    return conn.execute(_appeals().where(appeals.c.id == appeal_id)).mappings().one()


def count_open(conn: Connection, annotator_id: int | None = None) -> int:
    """Count the appeals that no decision has followed yet, of all annotators or of one."""
    statement = select(func.count()).select_from(appeals).where(~_later_decision)
    if annotator_id is not None:
        statement = statement.where(appeals.c.annotator_id == annotator_id)
    return conn.execute(statement).scalar_one()


def list_appeals(
    conn: Connection, *, limit: int, only_open: bool, annotator_id: int | None, after: tuple[datetime, UUID] | None
) -> Sequence[RowMapping]:
    """Return appeals, the oldest first, those after (submitted_at, id)."""
    statement = _appeals().order_by(appeals.c.submitted_at, appeals.c.id).limit(limit)
    if only_open:
        statement = statement.where(~_later_decision)
    if annotator_id is not None:
        statement = statement.where(appeals.c.annotator_id == annotator_id)
    if after is not None:
        statement = statement.where(tuple_(appeals.c.submitted_at, appeals.c.id) > after)
    return conn.execute(statement).mappings().all()


def _appeals() -> Select[tuple[object, ...]]:
    return select(
        appeals.c.id,
        annotators.c.public_id.label("annotator_id"),
        annotators.c.key.label("annotator"),
        appeals.c.note,
        appeals.c.submitted_by,
        appeals.c.submitted_at,
        (~_later_decision).label("open"),
    ).join_from(appeals, annotators)


def read_earners(conn: Connection, snapshot_id: UUID) -> Sequence[RowMapping]:
    """Return `id, annotator, ability, votes` of the annotators in the fit with a positive ability.

    The order is that of the annotators' numbers, the same in every run.
    """
    c = snapshot_annotators.c
    statement = (
        select(annotators.c.public_id.label("id"), annotators.c.key.label("annotator"), c.ability, c.votes)
        .join_from(snapshot_annotators, annotators, annotators.c.id == c.annotator_id)
        .where(c.snapshot_id == snapshot_id, c.ability > 0, c.standing != "excluded")
        .order_by(annotators.c.id)
    )
    return conn.execute(statement).mappings().all()
