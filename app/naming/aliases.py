"""Aliases of models, some for a period only, and the model that a name stands for at a time."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import Connection, RowMapping, delete, func, insert, or_, select, text

from app.database.ids import new_id
from app.database.tables import model_aliases

Named = tuple[str, datetime | None]
"""A model as a vote names it, and when the vote was cast; None for now."""

_READ = text(
    """
    SELECT name, id, NULL::timestamptz, NULL::timestamptz, FALSE, now() FROM models WHERE name = ANY(:names)
    UNION ALL
    SELECT name, model_id, valid_from, valid_until, TRUE, now() FROM model_aliases WHERE name = ANY(:names)
    """
)


@dataclass(frozen=True)
class AliasPeriod:
    """A period in which a name stands for a model; None means without beginning or end."""

    model_id: int
    valid_from: datetime | None
    valid_until: datetime | None

    def holds_at(self, time: datetime) -> bool:
        """Whether the name stands for the model at this time; the end is not part of the period."""
        begun = self.valid_from is None or self.valid_from <= time
        return begun and (self.valid_until is None or time < self.valid_until)


@dataclass(frozen=True)
class ModelNames:
    """The models that names stand for. An alias goes before a model's own name while its period lasts.

    Attributes
    ----------
    own : name → number of the model that is called so
    aliases : name → the periods in which it stands for another model; they do not overlap
    read_at : database time of the reading; what counts as now
    """

    own: Mapping[str, int]
    aliases: Mapping[str, Sequence[AliasPeriod]]
    read_at: datetime | None

    def number(self, name: str, time: datetime | None) -> int | None:
        """Return the number of the model that is meant; None for an unknown name."""
        periods = self.aliases.get(name)
        if periods is not None:
            at = time or self.read_at
            assert at is not None  # noqa: S101  read together with the periods
            for period in periods:
                if period.holds_at(at):
                    return period.model_id
        return self.own.get(name)


def read_names(conn: Connection, names: Iterable[str]) -> ModelNames:
    """Return what these names stand for, in one statement."""
    own: dict[str, int] = {}
    aliases: dict[str, list[AliasPeriod]] = {}
    read_at = None
    for name, number, valid_from, valid_until, is_alias, now in conn.execute(_READ, {"names": list(names)}):
        read_at = now
        if is_alias:
            aliases.setdefault(name, []).append(AliasPeriod(number, valid_from, valid_until))
        else:
            own[name] = number
    return ModelNames(own, aliases, read_at)


def list_aliases(conn: Connection, model_id: int) -> Sequence[RowMapping]:
    """Return a model's aliases by name and time."""
    c = model_aliases.c
    statement = select(model_aliases).where(c.model_id == model_id)
    return conn.execute(statement.order_by(c.name.collate("C"), c.valid_from.nulls_first())).mappings().all()


def overlapping_alias(conn: Connection, name: str, valid_from: datetime | None, valid_until: datetime | None) -> bool:
    """Whether some model, this one or another, has the alias at any time of the period."""
    c = model_aliases.c
    statement = select(c.id).where(c.name == name)
    if valid_until is not None:
        statement = statement.where(or_(c.valid_from.is_(None), c.valid_from < valid_until))
    if valid_from is not None:
        statement = statement.where(or_(c.valid_until.is_(None), c.valid_until > valid_from))
    return bool(conn.execute(select(statement.exists())).scalar_one())


def insert_alias(
    conn: Connection,
    name: str,
    model_id: int,
    *,
    valid_from: datetime | None,
    valid_until: datetime | None,
    created_by: str,
) -> RowMapping:
    """Add an alias and return it."""
    statement = insert(model_aliases).values(
        id=new_id(),
        name=name,
        model_id=model_id,
        valid_from=valid_from,
        valid_until=valid_until,
        created_by=created_by,
        created_at=func.clock_timestamp(),
    )
    return conn.execute(statement.returning(model_aliases)).mappings().one()


def delete_alias(conn: Connection, model_id: int, alias_id: UUID) -> bool:
    """Take an alias from a model; whether it had it."""
    c = model_aliases.c
    statement = delete(model_aliases).where(c.id == alias_id, c.model_id == model_id)
    return conn.execute(statement).rowcount == 1


def delete_aliases_named(conn: Connection, model_id: int, name: str) -> None:
    """Take every alias of this name from a model: it is about to be its own name."""
    c = model_aliases.c
    conn.execute(delete(model_aliases).where(c.name == name, c.model_id == model_id))
