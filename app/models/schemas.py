from datetime import date, datetime
from typing import Annotated, Any, Self
from urllib.parse import urlsplit
from uuid import UUID

from pydantic import AfterValidator, Field, model_validator

from app.api.texts import Reason
from app.database.timestamps import Day, StorableTimestamp
from app.naming.names import MAX_NAME_LENGTH, name_error
from app.schemas import ClosedModel, FrozenModel

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


class Alias(FrozenModel):
    """Another name of a model, and the period in which votes may use it."""

    id: UUID
    name: str
    valid_from: datetime | None
    valid_until: datetime | None
    created_by: str
    created_at: datetime


class Model(FrozenModel):
    """A contestant."""

    name: str
    organization: str | None
    license: str | None
    link: str | None
    released: date | None
    price: float | None = Field(description="US dollars for a million tokens.")
    created_at: datetime
    archived_at: datetime | None = Field(description="When it was archived; null for a model that is shown.")
    archive_reason: str | None = Field(description="Why it was archived; null where no reason was given.")
    unreleased: bool = Field(description="Whether its name is a codename, which nothing public names.")
    merged_into: str | None = Field(description="The model for which its votes count; null where they count for it.")


class FoundModel(Model):
    """A model and its number in votes, which no answer has."""

    model_id: int = Field(exclude=True)


class ModelFacts(ClosedModel):
    """What is known of a model besides its name; null where unknown."""

    organization: ModelName | None = Field(None, description="Who made it.")
    license: ModelName | None = Field(None, description="Under which terms it is available.")
    link: Link | None = Field(None, description="Where to read more, http or https.")
    released: Day | None = None
    price: float | None = Field(
        None,
        strict=True,
        gt=0.0,
        le=1e9,
        allow_inf_nan=False,
        description="US dollars for a million tokens, of output where they differ.",
    )


class NewModel(ModelFacts):
    """A model that votes may name from now on."""

    name: ModelName
    unreleased: bool = Field(
        False,
        description="The name is a codename. Battles show the model and its votes count, but no public leaderboard, "
        "page or file names it, and it has no rank, until it is published.",
    )


class Publication(ClosedModel):
    """Publish an unreleased model."""

    name: ModelName | None = Field(
        None, description="Its real name; the codename becomes an alias. Null: the codename is its name."
    )


def _without_default(schema: dict[str, Any]) -> None:
    del schema["default"]


class ModelChange(ModelFacts):
    """What to change of a model; fields that are left out stay."""

    # A visible default would say that a field that is left out changes to it.
    name: ModelName = Field(
        "", description="A new name; the old name becomes an alias for good.", json_schema_extra=_without_default
    )
    archived: bool = Field(
        False,
        description="Whether leaderboards hide it; its votes still count.",
        json_schema_extra=_without_default,
    )
    reason: Reason | None = Field(
        None, description="Why it is archived, with `archived`. Everyone can read it: name no person or key here."
    )

    @model_validator(mode="after")
    def reason_is_for_archiving(self) -> Self:
        """Refuse a reason for anything else."""
        if self.reason is not None and not self.archived:
            raise ValueError("a reason goes with archived: true")
        return self


class NewAlias(ClosedModel):
    """Another name of a model, for good or for a period."""

    name: ModelName
    valid_from: StorableTimestamp | None = Field(None, description="Start of the period; null: no start.")
    valid_until: StorableTimestamp | None = Field(None, description="End of the period, excluded; null: no end.")

    @model_validator(mode="after")
    def period_is_in_order(self) -> Self:
        """Refuse a period that ends before it begins."""
        if self.valid_from is not None and self.valid_until is not None and self.valid_from >= self.valid_until:
            raise ValueError("valid_from must be before valid_until")
        return self


class Version(FrozenModel):
    """A model that changed, and what it was before."""

    model: str
    changed_at: datetime
    before: str = Field(description="The model for which the votes before this time count.")


class Merge(ClosedModel):
    """Let a model's votes count for another model."""

    into: ModelName = Field(description="Name of the model for which they count.")
    reason: Reason | None = None


class Unmerge(ClosedModel):
    """Let a model's votes count for itself again."""

    reason: Reason | None = None


class NewVersion(ClosedModel):
    """Split a model's votes at a time: the votes before it count for a model of their own."""

    at: StorableTimestamp = Field(description="When the model changed. It must not lie in the future.")
    reason: Reason | None = None


class MergeOnRecord(FrozenModel):
    """For which model the votes on a model count: all of them, or those before it changed."""

    model: str
    changed_at: datetime | None
    into: str
    reason: str | None
    recorded_by: str
    recorded_at: datetime
