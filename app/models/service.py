from datetime import date, datetime
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection

from app.errors import NotFoundError
from app.models import queries as models
from app.naming import aliases
from app.naming.aliases import read_names
from app.naming.names import name_error


class Alias(BaseModel):
    """Another name of a model and when votes mean the model by it."""

    model_config = ConfigDict(frozen=True)

    id: UUID
    name: str
    valid_from: datetime | None
    valid_until: datetime | None
    created_by: str
    created_at: datetime


class Model(BaseModel):
    """A contestant."""

    model_config = ConfigDict(frozen=True)

    name: str
    organization: str | None
    license: str | None
    link: str | None
    released: date | None
    created_at: datetime
    archived_at: datetime | None = Field(description="When it was hidden from boards; null for one that is shown.")


class FoundModel(Model):
    """A model and the number that stands for it in votes."""

    model_id: int

    def public(self) -> Model:
        """Return what is shown."""
        return Model.model_validate(self.model_dump())


def list_models(conn: Connection, *, limit: int, archived: bool = False, after: str | None = None) -> list[FoundModel]:
    """Return models by name, those after a name, the archived ones only where asked for."""
    rows = models.list_models(conn, archived=archived, limit=limit, after=after)
    return [FoundModel.model_validate({**row, "model_id": row["id"]}) for row in rows]


def find_model(conn: Connection, reference: str) -> FoundModel:
    """Return the model of this name or, failing that, the one that has it as an alias now.

    Raises
    ------
    NotFoundError
    """
    number = None
    if name_error(reference) is None:
        names = read_names(conn, [reference])
        number = names.own.get(reference) or names.number(reference, None)
    if number is None:
        raise NotFoundError(f"there is no model {reference!r}")
    return get_model(conn, number)


def list_aliases(conn: Connection, model: FoundModel) -> list[Alias]:
    """Return the model's other names, by name and time."""
    return [Alias.model_validate(dict(row)) for row in aliases.list_aliases(conn, model.model_id)]


def get_model(conn: Connection, number: int) -> FoundModel:
    """Return the model of this number, which is on record."""
    row = models.get_model(conn, number)
    return FoundModel.model_validate({**row, "model_id": row["id"]})
