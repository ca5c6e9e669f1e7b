from typing import Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from app.leaderboard.diff.schemas import ModelChange
from app.policy.schemas import Policy
from app.rating.settings import Standing

Change = Literal["flagged", "excluded", "pending", "back_in", "cleared"]
"""What an annotator whose standing changes becomes."""


class StandingChange(BaseModel):
    """One annotator whose standing would change."""

    model_config = ConfigDict(frozen=True)

    id: UUID
    annotator: str = Field(description="The key the votes carry.")
    before: Standing
    after: Standing
    ability: float | None = Field(description="Under the previewed policy; null outside its fit.")
    shadow_ability: float | None
    votes: int

    @property
    def change(self) -> Change:
        """What the annotator becomes."""
        if self.after in ("flagged", "excluded", "pending"):
            return self.after
        return "back_in" if self.before in ("pending", "excluded") else "cleared"


class PolicyPreview(BaseModel):
    """What a policy would do to the votes on record now; nothing of it has happened."""

    model_config = ConfigDict(frozen=True)

    policy_version: int = Field(description="The policy in force, which this one was compared with.")
    settings: Policy = Field(description="The policy previewed.")
    votes_read: int
    votes_used: int
    newly_excluded_share: float = Field(description="Share of the votes past δ that would be newly excluded.")
    needs_review: bool = Field(description="Whether the refit would wait for an admin.")
    review_reason: str | None = Field(
        description="Why it would wait: because of that share, or because the annotators are in two camps. "
        "Null where it would not."
    )
    counts: dict[Change, int] = Field(
        description="How many annotators would change to these, each counted once. back_in: to active or trusted, "
        "from pending or excluded. cleared: from flagged to active."
    )
    annotators: list[StandingChange] = Field(description="Those whose standing would change, most votes first.")
    summary: list[str] = Field(description="How the leaderboard would move, in words.")
    models: list[ModelChange] = Field(description="The leaderboard against the newest snapshot's.")
