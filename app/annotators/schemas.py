from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import BaseModel, Field

from app.annotators.kinds import Kind
from app.api.texts import Reason
from app.rating.settings import Standing
from app.schemas import ClosedModel, FrozenModel

Action = Literal["exclude", "reinstate", "trust", "dismiss", "withdraw"]


class Lean(FrozenModel):
    """What a feature of answers is worth to an annotator, beyond the crowd."""

    points: float = Field(description="Elo points for one standard deviation more, or for being on the left.")
    lower: float | None = Field(description="Lower end of the 95 % interval.")
    upper: float | None = Field(description="Upper end of it.")


class AnnotatorFigures(FrozenModel):
    """What a refit found out about an annotator."""

    ability: float | None = Field(
        description="Mean of the posterior by all of the annotator's votes, by which the default rule judges; 1 is the "
        "mean honest annotator, 0 a coin. Null outside the fit."
    )
    se: float | None
    ability_lower: float | None = Field(description="Lower end of the ability's 95 % interval, normal approximation.")
    ability_upper: float | None = Field(description="Upper end of it.")
    shadow_ability: float | None = Field(
        description="The same of an annotator outside the fit, against the published scores."
    )
    shadow_se: float | None
    shadow_lower: float | None = Field(description="Lower end of the shadow ability's 95 % interval.")
    shadow_upper: float | None = Field(description="Upper end of it.")
    probability_low: float | None = Field(description="Probability that the ability is at or below ε.")
    adjusted_ability: float | None = Field(
        description="What the annotator's decided votes alone say of the ability, not drawn to the crowd's law; no "
        "rule reads it. Null for pending annotators."
    )
    adjusted_lower: float | None = Field(description="Lower end of its 95 % interval, which knows of tastes.")
    adjusted_upper: float | None = Field(description="Upper end of it.")
    tie_readiness: float | None = Field(description="Share of ties between two equally good models; null without ties.")
    tie_readiness_lower: float | None = Field(description="Lower end of its 95 % interval.")
    tie_readiness_upper: float | None = Field(description="Upper end of it.")
    side_lean: float | None = Field(
        description="Elo points by which the left model seems better because it is on the left; negative for the "
        "right. Null where this crowd's leans are not worth an estimate."
    )
    side_lean_lower: float | None = Field(description="Lower end of its 95 % interval.")
    side_lean_upper: float | None = Field(description="Upper end of it.")
    leans: dict[str, Lean] | None = Field(
        None,
        description="What the features of the leaderboard style are worth to the annotator beyond the crowd. Null "
        "without such a leaderboard, and with fewer than 20 votes.",
    )
    votes: int = Field(description="Votes on record at that refit.")
    standing: Standing = Field(description="The standing that holds: the override if there is one, else the rule's.")
    rule_standing: Standing = Field(description="The standing by the rule alone.")


class Named(FrozenModel):
    """Which annotator is shown. A base of its own, so that these fields come first."""

    id: UUID
    annotator: str = Field(description="The key the votes carry.")


class Annotator(AnnotatorFigures, Named):
    """An annotator with the figures of the newest snapshot."""

    override: Standing | None = Field(description="Set by a decision; null where the rule holds.")
    kind: Kind | None = Field(
        description="human, or judge: an LLM. Null where nothing was said, which counts as human."
    )


class FoundAnnotator(Annotator):
    """An annotator with what decisions need to know of the row; never part of an answer."""

    annotator_id: int = Field(exclude=True)
    snapshot_id: UUID | None = Field(exclude=True)
    dismissed_below: float | None = Field(exclude=True)
    strength: float | None = Field(exclude=True)
    reason_strength: float = Field(exclude=True)
    erased_at: datetime | None = Field(exclude=True)
    evidence: float = Field(exclude=True)

    @property
    def position(self) -> tuple[float, int]:
        """Place in the list, for its cursor."""
        return self.evidence, self.annotator_id


class VotesSummary(FrozenModel):
    """The annotator's votes so far, counted or not."""

    votes: int = Field(description="Rankings too, which none of the outcomes below counts.")
    model_a: int
    model_b: int
    tie: int
    tie_bothbad: int
    models: int = Field(description="Different models the votes named.")
    retracted: int = Field(description="Of the votes, those that are retracted or replaced by later ones.")
    first_received_at: datetime | None
    last_received_at: datetime | None


class _Dated(BaseModel):
    # A base of its own: these fields come first wherever past figures are shown.
    snapshot_id: UUID
    number: int = Field(description="The snapshot's number.")
    published_at: datetime


class PastEvidence(AnnotatorFigures, _Dated):
    """An annotator's figures in one snapshot."""


class Decision(FrozenModel):
    """An admin's act on an annotator, with the annotator's figures at that time."""

    id: UUID
    action: Action
    reason: str
    decided_by: str = Field(description="Name of the key it was decided with.")
    decided_at: datetime
    snapshot_id: UUID | None = Field(description="The newest snapshot at that time.")
    ability: float | None = Field(description="The annotator's ability in that snapshot.")
    se: float | None
    group_id: UUID | None = Field(description="Shared by decisions that were taken on a group at once, else null.")


class AnnotatorChange(ClosedModel):
    """What an annotator is."""

    kind: Kind


class DecisionRequest(ClosedModel):
    """What to decide, and why."""

    action: Action
    reason: Reason


class DecisionTaken(Decision):
    """A decision on record, and the annotator after it."""

    annotator: Annotator


class ErasureRequest(ClosedModel):
    """Why an annotator is to be forgotten."""

    reason: Reason


class Erasure(FrozenModel):
    """The name of an annotator after the erasure."""

    id: UUID = Field(description="The annotator's id, as before.")
    annotator: str = Field(description="The random key that replaced the key.")
    erased_at: datetime = Field(description="When the link was cut: the first time, if it was done again.")
