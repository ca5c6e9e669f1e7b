from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import Field

from app.database.timestamps import Timestamp
from app.naming.names import Name, name_error
from app.schemas import ClosedModel, FrozenModel, refuse
from app.snapshots.schemas import LeaderboardMethod

What = Literal["votes", "annotators", "leaderboard", "answers"]
Format = Literal["csv", "jsonl", "parquet"]


class ExportFilters(ClosedModel):
    """Which votes, annotators, leaderboard or answers to export. Each filter goes with one or two of these."""

    since: Timestamp | None = Field(None, description="Votes received at this time or later.")
    until: Timestamp | None = Field(None, description="Votes received before this time.")
    model: Annotated[Name, refuse(name_error)] | None = Field(
        None, description="Votes on this model, by name or alias."
    )
    standing: Literal["pending", "active", "flagged", "excluded", "trusted"] | None = Field(
        None, description="Annotators with this standing."
    )
    snapshot: Annotated[str, Field(max_length=50)] | None = Field(
        None, description="Id or number: the votes that this snapshot read, or its leaderboard."
    )
    method: LeaderboardMethod | None = Field(None, description="The leaderboard by this method; am-elo by default.")
    tag: Annotated[Name, refuse(name_error)] | None = Field(
        None, description="The leaderboard of the votes with this tag."
    )

    def given(self) -> dict[str, Any]:
        """Return the filters that are set, as JSON values."""
        return self.model_dump(mode="json", exclude_none=True)


class ExportRequest(ClosedModel):
    """What to export, and how."""

    what: What
    format: Format = "csv"
    filters: ExportFilters = ExportFilters()


class Export(FrozenModel):
    """An export: a file that a worker makes."""

    id: UUID
    state: Literal["queued", "running", "done", "failed"]
    what: What
    format: Format
    options: dict[str, Any] = Field(description="The filters; `vote_set` names exactly the votes that were on record.")
    rows: int | None
    bytes: int | None
    detail: str | None = Field(description="Why it failed.")
    requested_by: str
    created_at: datetime
    finished_at: datetime | None

    @property
    def filters(self) -> ExportFilters:
        """The filters, read from the options."""
        known = {name: value for name, value in self.options.items() if name in ExportFilters.model_fields}
        return ExportFilters.model_validate(known)
