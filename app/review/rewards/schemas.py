from decimal import Decimal
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from app.snapshots.schemas import SnapshotHead


class Reward(BaseModel):
    """One annotator's share of the budget."""

    model_config = ConfigDict(frozen=True)

    id: UUID
    annotator: str = Field(description="The key the votes carry.")
    ability: float = Field(description="In this snapshot; 1 is the typical annotator.")
    votes: int = Field(description="Votes that counted in this snapshot.")
    share: float = Field(description="ability × votes, divided by the sum over all annotators.")
    amount: Decimal = Field(description="In the budget's currency, to the cent.")


class Rewards(BaseModel):
    """A budget split over the annotators of one snapshot; the amounts add up to it exactly."""

    model_config = ConfigDict(frozen=True)

    snapshot: SnapshotHead
    budget: Decimal
    rewards: list[Reward] = Field(description="The largest first.")

    def rows(self) -> list[dict[str, Any]]:
        """Return the rewards as rows of a table."""
        return [
            {**row.model_dump(exclude={"id", "amount"}), "id": str(row.id), "amount": f"{row.amount:.2f}"}
            for row in self.rewards
        ]
