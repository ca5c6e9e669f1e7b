"""Counts of battles, by model, tag, day and the table that they were drawn from."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Connection,
    Date,
    Integer,
    Label,
    RowMapping,
    and_,
    cast,
    column,
    func,
    literal,
    or_,
    select,
    union_all,
)

from app.database.tables import battles, candidate_sets, models, prompts, snapshot_pair_weights
from app.models.contestants import read_unoffered_ids

MOST_TAGS = MOST_PROMPTS = 100
PROMPT_CHARACTERS = 200


@dataclass(frozen=True)
class Chosen:
    """Which battles are counted.

    Attributes
    ----------
    since, until : when they were drawn; the end is not part of the period
    snapshot_id : drawn from this snapshot's tables; None for all
    tag : with this tag; None for all
    """

    since: datetime
    until: datetime
    snapshot_id: UUID | None = None
    tag: str | None = None

    @property
    def before(self) -> "Chosen":
        """The period before, of the same length, whatever the snapshot."""
        return Chosen(self.since - (self.until - self.since), self.since, None, self.tag)

    def condition(self) -> ColumnElement[bool]:
        """Return the condition in SQL."""
        c = battles.c
        return and_(
            c.created_at >= self.since,
            c.created_at < self.until,
            *([c.snapshot_id == self.snapshot_id] if self.snapshot_id is not None else []),
            *([literal(self.tag) == func.any(c.tags)] if self.tag is not None else []),
        )


def count_all(conn: Connection, chosen: Chosen) -> RowMapping:
    """Return `offered, voted, skipped, expired` of all battles."""
    return conn.execute(select(*_counts()).where(chosen.condition())).mappings().one()


def count_by_model(conn: Connection, chosen: Chosen) -> Sequence[RowMapping]:
    """Return `model_id, model, organization, archived, unreleased`, the counts and `compared`, for every model.

    `archived` is any model that battles do not show now.
    """
    c = battles.c
    sides = union_all(
        *(
            select(side.label("model_id"), *(c[name] for name in _READ)).where(chosen.condition())
            for side in (c.left_id, c.right_id)
        )
    ).subquery()
    counted = (
        select(sides.c.model_id, *_counts(sides.c), func.count().filter(_has_table(sides.c)).label("compared"))
        .group_by(sides.c.model_id)
        .subquery()
    )
    figures = [func.coalesce(counted.c[name], 0).label(name) for name in (*_COUNTED, "compared")]
    statement = select(
        models.c.id.label("model_id"),
        models.c.name.label("model"),
        models.c.organization,
        models.c.id.in_(read_unoffered_ids(conn)).label("archived"),
        models.c.unreleased,
        *figures,
    )
    statement = statement.outerjoin_from(models, counted, counted.c.model_id == models.c.id)
    return conn.execute(statement.order_by(counted.c.offered.desc().nulls_last(), models.c.name)).mappings().all()


def count_by_tag(conn: Connection, chosen: Chosen) -> Sequence[RowMapping]:
    """Return `tag` and the counts, the tags with the most battles first."""
    tag = func.unnest(battles.c.tags).label("tag")
    tagged = select(tag, *(battles.c[name] for name in _READ)).where(chosen.condition()).subquery()
    statement = select(tagged.c.tag, *_counts(tagged.c)).group_by(tagged.c.tag)
    ordered = statement.order_by(column("offered").desc(), tagged.c.tag.collate("C"))
    return conn.execute(ordered.limit(MOST_TAGS)).mappings().all()


def count_by_prompt(conn: Connection, chosen: Chosen) -> Sequence[RowMapping]:
    """Return `prompt_id, prompt, category` and the counts, the prompts with the most battles first."""
    c = battles.c
    shown = (chosen.condition(), c.prompt_id.is_not(None))
    counted = select(c.prompt_id, *_counts()).where(*shown).group_by(c.prompt_id).subquery()
    text = func.left(prompts.c.text, PROMPT_CHARACTERS).label("prompt")
    columns = (prompts.c.public_id.label("prompt_id"), text, prompts.c.category)
    statement = select(*columns, *(counted.c[name] for name in _COUNTED))
    statement = statement.join_from(counted, prompts, prompts.c.id == counted.c.prompt_id)
    return conn.execute(statement.order_by(counted.c.offered.desc(), prompts.c.id).limit(MOST_PROMPTS)).mappings().all()


def count_by_day(conn: Connection, chosen: Chosen) -> Sequence[RowMapping]:
    """Return `day` and the counts, in order."""
    day = cast(func.timezone("UTC", battles.c.created_at), Date).label("day")
    statement = select(day, *_counts()).where(chosen.condition()).group_by(column("day")).order_by(column("day"))
    return conn.execute(statement).mappings().all()


def count_by_candidates(conn: Connection, chosen: Chosen) -> Sequence[RowMapping]:
    """Return `model_ids, battles` for every set of candidates."""
    number = battles.c.candidate_set_id
    counted = select(number, func.count().label("battles")).where(chosen.condition()).group_by(number).subquery()
    statement = select(candidate_sets.c.model_ids, counted.c.battles)
    statement = statement.join_from(counted, candidate_sets, candidate_sets.c.id == counted.c.candidate_set_id)
    return conn.execute(statement).mappings().all()


def count_draws(conn: Connection, chosen: Chosen) -> Sequence[RowMapping]:
    """Return `snapshot_id, drawn_by, tags, model_ids, battles` of the draws whose table is known, by snapshot."""
    c = battles.c
    keys = (c.snapshot_id, c.drawn_by, c.tags, c.candidate_set_id)
    counted = (
        select(*keys, func.count().label("battles")).where(chosen.condition(), _has_table(c)).group_by(*keys).subquery()
    )
    k = counted.c
    statement = select(k.snapshot_id, k.drawn_by, k.tags, candidate_sets.c.model_ids, k.battles)
    statement = statement.join_from(counted, candidate_sets, candidate_sets.c.id == k.candidate_set_id)
    return conn.execute(statement.order_by(k.snapshot_id)).mappings().all()


_COUNTED = ("offered", "voted", "skipped", "expired")
_READ = ("vote_id", "skip_reason", "expires_at", "drawn_by", "snapshot_id")


def _counts(c: Any = battles.c) -> list[Label[int]]:
    over = and_(c.vote_id.is_(None), c.skip_reason.is_(None), c.expires_at <= func.now())
    counts = (func.count(), func.count(c.vote_id), func.count(c.skip_reason), func.count().filter(over))
    return [cast(count, Integer).label(name) for count, name in zip(counts, _COUNTED, strict=True)]


def _has_table(c: Any) -> ColumnElement[bool]:
    """Whether it is known with which probabilities the pair was drawn: old snapshots drop their tables."""
    kept = select(snapshot_pair_weights.c.snapshot_id)
    return or_(c.drawn_by == "uniform", c.snapshot_id.in_(kept))
