from datetime import datetime
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection

from app.annotators import queries as store
from app.errors import NotFoundError
from app.naming.names import name_error
from app.naming.service import naming_of
from app.rating.settings import Standing


class Evidence(BaseModel):
    """What a refit found out about an annotator."""

    model_config = ConfigDict(frozen=True)

    ability: float | None = Field(description="1 is the typical annotator; null outside the fit.")
    se: float | None
    ability_lower: float | None = Field(description="Lower end of the ability's 95 % interval, normal approximation.")
    ability_upper: float | None = Field(description="Upper end of it.")
    shadow_ability: float | None = Field(
        description="Of an annotator outside the fit: how the votes agree with the published scores."
    )
    shadow_se: float | None
    shadow_lower: float | None = Field(description="Lower end of the shadow ability's 95 % interval.")
    shadow_upper: float | None = Field(description="Upper end of it.")
    probability_low: float | None = Field(description="Probability that the ability is at or below ε.")
    votes: int = Field(description="Votes on record at that refit.")
    standing: Standing = Field(description="What holds: the override where there is one, else the rule.")
    rule_standing: Standing = Field(description="What the rule says by itself.")


class _Named(BaseModel):
    """Who it is; named first wherever an annotator is shown."""

    id: UUID
    annotator: str = Field(description="The key the votes carry.")


class Annotator(Evidence, _Named):
    """An annotator with the figures of the newest snapshot."""

    override: Standing | None = Field(description="Set by a decision; null where the rule holds.")


class VotesSummary(BaseModel):
    """What an annotator has voted so far, whether it counts or not."""

    model_config = ConfigDict(frozen=True)

    votes: int
    model_a: int
    model_b: int
    tie: int
    tie_bothbad: int
    models: int = Field(description="Different models the votes named.")
    retracted: int = Field(description="Of the votes, those that are retracted or replaced by later ones.")
    first_received_at: datetime | None
    last_received_at: datetime | None


class _Dated(BaseModel):
    """In which snapshot; named first wherever past figures are shown."""

    snapshot_id: UUID
    number: int = Field(description="The snapshot's number.")
    published_at: datetime


class PastEvidence(Evidence, _Dated):
    """An annotator's figures in one snapshot."""


class FoundAnnotator(Annotator):
    """An annotator, and what decisions need to know of the row."""

    annotator_id: int
    snapshot_id: UUID | None
    dismissed_below: float | None
    strength: float | None
    erased_at: datetime | None
    evidence: float

    @property
    def position(self) -> tuple[float, int]:
        """Where the annotator stands in the list, the worst ability first."""
        return self.evidence, self.annotator_id

    def keys(self, reference: str) -> set[str]:
        """Return the keys that say who it is: as stored and, unless it is the id, what the caller named it by."""
        return {self.annotator, reference} - {str(self.id)}

    def public(self) -> Annotator:
        """Return what is shown to reviewers."""
        return Annotator.model_validate(self.model_dump())


def list_annotators(
    conn: Connection,
    *,
    limit: int,
    standing: Standing | None = None,
    key: str | None = None,
    after: tuple[float, int] | None = None,
) -> list[FoundAnnotator]:
    """Return annotators, the worst ability first, those without any last.

    `key` picks one, by the raw key or by the key that is shown; `after` is a `position`.
    """
    if key is not None and name_error(key) is not None:
        return []
    keys = None if key is None else naming_of(conn).matching_keys(key)
    rows = store.list_annotators(conn, standing=standing, keys=keys, limit=limit, after=after)
    return [FoundAnnotator.model_validate(dict(row)) for row in rows]


def find_annotator(conn: Connection, reference: str) -> FoundAnnotator:
    """Return the annotator with this public id or this key, as it came with votes or as it is shown.

    Raises
    ------
    NotFoundError
    """
    row = None
    if name_error(reference) is None:
        keys = naming_of(conn).matching_keys(reference)
        row = store.find_annotator(conn, public_id=_uuid(reference), keys=keys)
    if row is None:
        # Without what was asked for, which may be a raw key: errors are logged, and answers kept.
        raise NotFoundError("there is no annotator with this id or key")
    return FoundAnnotator.model_validate(dict(row))


def summarise_votes(conn: Connection, annotator: FoundAnnotator) -> VotesSummary:
    """Count what the annotator has voted so far."""
    return VotesSummary.model_validate(dict(store.summarise_votes(conn, annotator.annotator_id)))


def list_history(
    conn: Connection, annotator: FoundAnnotator, *, limit: int, before: int | None = None
) -> list[PastEvidence]:
    """Return the annotator's figures in past snapshots, the newest first, those with a number below `before`."""
    rows = store.list_history(conn, annotator.annotator_id, limit=limit, before=before)
    return [PastEvidence.model_validate(dict(row)) for row in rows]


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
