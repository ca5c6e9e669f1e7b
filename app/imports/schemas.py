from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import Field, field_validator

from app.schemas import FrozenModel

State = Literal["queued", "running", "done", "failed"]


class ImportCounts(FrozenModel):
    """The number of records of each kind so far; null where a dry run, which only reads the file, cannot know it."""

    rows: int = Field(0, description="Records in the file; 0 before they are counted.")
    created: int = Field(0, description="Votes recorded.")
    replaced: int = Field(0, description="Of these, votes that replaced an earlier one, as the policy says.")
    duplicates: int | None = Field(
        0,
        description="Votes left out because they are on record: same battle and annotator, `vote_id`, or content.",
    )
    retracted: int | None = Field(0, description="Of these, votes whose stored vote is retracted; it stays retracted.")
    conflicts: int | None = Field(0, description="Votes that contradict a stored vote, which does not change.")
    rejected: int = Field(0, description="Records that are no valid votes.")
    skipped: int = Field(0, description="Records without a vote.")


class ImportFault(FrozenModel):
    """An error in one record."""

    record: int = Field(description="Number of the record in the file, from 0.")
    place: str = Field(description="Its place in the file: `line 7, winner`.")
    kind: Literal["invalid", "conflict"]
    detail: str

    @field_validator("place", mode="before")
    @classmethod
    def _name_the_record(cls, value: str, info: Any) -> str:
        # Line numbers are looked up once, at the end of the import.
        return value or f"record {info.data['record']}"


class Import(FrozenModel):
    """The import of a file."""

    id: UUID
    state: State
    file_name: str
    sha256: str = Field(description="Hash of the file, in hexadecimal; a file is imported once.")
    bytes: int | None = Field(description="Size of the uploaded file.")
    options: dict[str, Any]
    rows_done: int = Field(description="Records processed, of `rows_total`.")
    rows_total: int | None = Field(description="Records in the file; null before they are counted.")
    counts: ImportCounts
    notes: list[str] = Field([], description="What was noticed once it was checked: times, names that look alike.")
    detail: str | None = Field(description="Why it failed.")
    undone_by: UUID | None = Field(None, description="The retraction that undid it; null while its votes count.")
    requested_by: str
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None

    @field_validator("sha256", mode="before")
    @classmethod
    def _in_hexadecimal(cls, value: object) -> object:
        return value.hex() if isinstance(value, bytes | memoryview) else value


class ImportDetails(Import):
    """An import with its first errors."""

    n_faults: int = Field(description="Errors stored, at most 100,000; `…/errors` lists all of them.")
    faults: list[ImportFault] = Field(description="The first errors.")
