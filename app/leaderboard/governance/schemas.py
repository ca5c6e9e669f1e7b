"""What everyone may know of how an arena is run."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from app.battles.exposure.schemas import BestOfMany
from app.rating.settings import PairPolicy
from app.schemas import FrozenModel
from app.snapshots.schemas import SnapshotHead
from app.votes.retractions.queries import Target


class ShownModel(FrozenModel):
    """How often battles showed a model."""

    model: str
    organization: str | None
    battles: int
    share: float = Field(description="Of all battles of the period.")
    intended: float | None = Field(
        description="In how many of the `compared` battles the policy would show it, on average; null where no table "
        "of pairs is left."
    )
    compared: int = Field(description="The model's battles that were drawn from a table of pairs that is still there.")


class ArchivedModel(FrozenModel):
    """A model that leaderboards no longer show."""

    model: str
    organization: str | None
    archived_at: datetime
    reason: str | None = Field(description="Null where none was given.")


class MergedModel(FrozenModel):
    """A model whose votes count for another one: all of them, or those before it changed."""

    model: str
    changed_at: datetime | None
    into: str
    reason: str | None
    recorded_at: datetime


class RetractedVotes(FrozenModel):
    """Retractions that hold, of one kind and for one reason."""

    target: Target = Field(description="What was retracted: the votes of one annotator, say.")
    reason: str | None = Field(
        description="Null for annotators, because it may name a person, and for unreleased models."
    )
    retractions: int
    votes: int
    last_at: datetime


class OrganizationVariants(FrozenModel):
    """The models of an organization, and its best one once it is allowed for that it was chosen among them."""

    organization: str | None = Field(description="Null for the models of no organization.")
    variants: int = Field(description="Public models in battles.")
    unreleased: int = Field(description="Models in battles under a codename.")
    best: BestOfMany | None = Field(
        description="The best public one; the adjustment counts unreleased ones too. Null for an organization with one "
        "model, or where the joint errors of the scores are not stored."
    )


class Role(FrozenModel):
    """Who may do what."""

    role: Literal["rule", "review", "admin"] = Field(description="A scope of keys, or the rule of the policy.")
    may: str


class AuditHead(FrozenModel):
    """The newest entry of the audit log. Every entry has the hash of the one before."""

    number: int
    hash: str = Field(description="SHA-256, in hexadecimal.")


class Governance(FrozenModel):
    """How an arena is run, from what it has on record."""

    snapshot: SnapshotHead | None = Field(description="The newest, with the hash of its votes; null before the first.")
    audit: AuditHead | None = Field(description="When the snapshot was published; null for an empty log.")
    since: datetime = Field(description="Start of the period in which battles are counted.")
    until: datetime
    battles: int = Field(description="In the period. Each shows two models.")
    battle_policy: PairPolicy = Field(description="Which pairs battles show, by the policy in force.")
    battle_floor: float = Field(description="Share of the battles that is drawn uniformly over all pairs.")
    models: list[ShownModel] = Field(description="Public ones, those with the most battles first.")
    battles_of_unreleased: int = Field(description="Times that battles showed an unreleased model.")
    organizations: list[OrganizationVariants]
    max_unreleased: int | None = Field(description="How many unreleased models each may have; null for no limit.")
    archived: list[ArchivedModel] = Field(description="The last first.")
    merged: list[MergedModel]
    retracted: list[RetractedVotes] = Field(description="At most 100, the last first.")
    roles: list[Role] = Field(description="Who may exclude annotators, retract votes and remove models.")
