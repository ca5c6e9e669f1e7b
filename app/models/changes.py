"""Changes of what is on record of models: new ones, names, aliases, archiving. Each is in the audit log."""

from typing import Annotated, Any, Self
from urllib.parse import urlsplit
from uuid import UUID

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from sqlalchemy import Connection

from app.audit import service as audit
from app.database.timestamps import Day, StorableTimestamp
from app.errors import ConflictError, NotFoundError
from app.models import queries as models
from app.models.service import Alias, FoundModel, find_model, get_model
from app.naming import aliases
from app.naming.aliases import read_names
from app.naming.names import MAX_NAME_LENGTH, name_error

MAX_LINK_LENGTH = 2_000


def _name(value: str) -> str:
    if (error := name_error(value)) is not None:
        raise ValueError(error)
    return value


def _link(value: str) -> str:
    if not value.isascii() or not value.isprintable() or " " in value:
        raise ValueError("must be a web address in plain characters")
    try:
        parts = urlsplit(value)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must begin with http:// or https:// and a host")
    return value


ModelName = Annotated[str, Field(min_length=1, max_length=MAX_NAME_LENGTH), AfterValidator(_name)]
Link = Annotated[str, Field(max_length=MAX_LINK_LENGTH), AfterValidator(_link)]


def _without_default(schema: dict[str, Any]) -> None:
    del schema["default"]


class ModelFacts(BaseModel):
    """What is known of a model besides its name; null where it is not known."""

    model_config = ConfigDict(extra="forbid")

    organization: ModelName | None = Field(None, description="Who made it.")
    license: ModelName | None = Field(None, description="Under which terms it is available.")
    link: Link | None = Field(None, description="Where to read more, http or https.")
    released: Day | None = None


class NewModel(ModelFacts):
    """A model that votes may name from now on."""

    name: ModelName


class ModelChange(ModelFacts):
    """What to change of a model; what is left out stays."""

    # Left out, both stay as they are; a default that can be seen would say that they are changed to it.
    name: ModelName = Field(
        "", description="A new name; the old one becomes an alias for good.", json_schema_extra=_without_default
    )
    archived: bool = Field(
        False,
        description="Whether it is hidden from boards; its votes count all the same.",
        json_schema_extra=_without_default,
    )


class NewAlias(BaseModel):
    """Another name of a model, for good or for a time."""

    model_config = ConfigDict(extra="forbid")

    name: ModelName
    valid_from: StorableTimestamp | None = Field(
        None, description="From when on votes mean the model by it; null: always."
    )
    valid_until: StorableTimestamp | None = Field(None, description="Until before when; null: for good.")

    @model_validator(mode="after")
    def period_is_in_order(self) -> Self:
        """Refuse a period that ends before it begins."""
        if self.valid_from is not None and self.valid_until is not None and self.valid_from >= self.valid_until:
            raise ValueError("valid_from must be before valid_until")
        return self


def add_model(conn: Connection, new: NewModel, *, added_by: str) -> FoundModel:
    """Put a model on record before any vote names it: how models come in where unknown ones are refused.

    Raises
    ------
    ConflictError
        The name is a model's already, or an alias.
    """
    models.lock_names(conn)
    if aliases.overlapping_alias(conn, new.name, None, None):
        raise ConflictError(f"{new.name!r} is an alias of a model")
    number = models.insert_model(conn, new.model_dump())
    if number is None:
        raise ConflictError(f"there is a model {new.name!r} already")
    audit.record(conn, actor=added_by, action="model.add", subject=new.name, detail={})
    return get_model(conn, number)


def change_model(conn: Connection, reference: str, change: ModelChange, *, changed_by: str) -> FoundModel:
    """Change what is known of a model, its name, or whether boards show it; only the fields that were set.

    Raises
    ------
    NotFoundError
    ConflictError
        The new name is another model's, or an alias of one.
    """
    models.lock_names(conn)
    found = find_model(conn, reference)
    values = change.model_dump(exclude_unset=True)
    name, archived = values.pop("name", found.name), values.pop("archived", None)
    if values:
        models.update_model(conn, found.model_id, values)
    if archived is not None:
        models.set_archived(conn, found.model_id, archived=archived)
    if name != found.name:
        _rename(conn, found, name, changed_by)
    changed = get_model(conn, found.model_id)
    before, after = found.model_dump(mode="json"), changed.model_dump(mode="json")
    changes = {field: [before[field], value] for field, value in after.items() if before[field] != value}
    if changes:
        detail = {"changes": changes}
        audit.record(conn, actor=changed_by, action="model.change", subject=found.name, detail=detail)
    return changed


def add_alias(conn: Connection, reference: str, new: NewAlias, *, added_by: str) -> Alias:
    """Give a model another name; votes cast within its dates mean the model by it, those on record stay as they are.

    Raises
    ------
    NotFoundError
    ConflictError
        The name is a model's own, or an alias already at some moment of the period.
    """
    models.lock_names(conn)
    found = find_model(conn, reference)
    if new.name in read_names(conn, [new.name]).own:
        raise ConflictError(f"{new.name!r} is the name of a model")
    if aliases.overlapping_alias(conn, new.name, new.valid_from, new.valid_until):
        raise ConflictError(f"{new.name!r} is an alias already at some time of this period")
    row = aliases.insert_alias(
        conn, new.name, found.model_id, valid_from=new.valid_from, valid_until=new.valid_until, created_by=added_by
    )
    detail = {"model": found.name, **new.model_dump(mode="json")}
    audit.record(conn, actor=added_by, action="model.alias.add", subject=str(row["id"]), detail=detail)
    return Alias.model_validate(dict(row))


def remove_alias(conn: Connection, reference: str, alias_id: UUID, *, removed_by: str) -> None:
    """Take a name from a model; the votes that came in by it stay the model's.

    Raises
    ------
    NotFoundError
    """
    models.lock_names(conn)
    found = find_model(conn, reference)
    if not aliases.delete_alias(conn, found.model_id, alias_id):
        raise NotFoundError(f"model {found.name!r} has no alias {alias_id}")
    audit.record(
        conn, actor=removed_by, action="model.alias.remove", subject=str(alias_id), detail={"model": found.name}
    )


def _rename(conn: Connection, found: FoundModel, name: str, renamed_by: str) -> None:
    aliases.delete_aliases_named(conn, found.model_id, name)
    if aliases.overlapping_alias(conn, name, None, None):
        raise ConflictError(f"{name!r} is an alias of another model")
    if aliases.overlapping_alias(conn, found.name, None, None):
        raise ConflictError(f"{found.name!r} could not stay an alias: at some time it is another model's")
    if not models.update_model(conn, found.model_id, {"name": name}):
        raise ConflictError(f"there is a model {name!r} already")
    aliases.insert_alias(conn, found.name, found.model_id, valid_from=None, valid_until=None, created_by=renamed_by)
