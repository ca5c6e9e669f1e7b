from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field

from app.database.timestamps import StorableTimestamp
from app.http.texts import Reason
from app.models.schemas import ModelName


class Merge(BaseModel):
    """Let a model's votes count for another model."""

    model_config = ConfigDict(extra="forbid")

    into: ModelName = Field(description="Name of the model for which they count.")
    reason: Reason | None = None


class Unmerge(BaseModel):
    """Let a model's votes count for itself again."""

    model_config = ConfigDict(extra="forbid")

    reason: Reason | None = None


class NewVersion(BaseModel):
    """Split a model's votes at a time: the votes before it count for a model of their own."""

    model_config = ConfigDict(extra="forbid")

    at: StorableTimestamp = Field(description="When the model changed. It must not lie in the future.")
    reason: Reason | None = None


class MergeOnRecord(BaseModel):
    """For which model the votes on a model count: all of them, or those before it changed."""

    model_config = ConfigDict(frozen=True)

    model: str
    changed_at: datetime | None
    into: str
    reason: str | None
    recorded_by: str
    recorded_at: datetime
