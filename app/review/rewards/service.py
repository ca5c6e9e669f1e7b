from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection

from app.errors import ConflictError
from app.review.rewards.queries import read_earners
from app.snapshots.service import SnapshotHead, find_snapshot

CENT = Decimal("0.01")


class Reward(BaseModel):
    """One annotator's share of the budget."""

    model_config = ConfigDict(frozen=True)

    id: UUID
    annotator: str = Field(description="The key the votes carry.")
    ability: float = Field(description="In this snapshot; 1 is the typical annotator.")
    votes: int = Field(description="Votes that counted in this snapshot.")
    share: float = Field(description="ability × votes, divided by the sum over everyone.")
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


def split_budget(conn: Connection, budget: Decimal, snapshot: str | None = None) -> Rewards:
    """Split a budget in proportion to max(ability, 0) × counted votes.

    Whoever is outside the fit (too few votes, excluded) or at or below ability 0 gets nothing. What rounding down to
    cents leaves goes, a cent each, to those who lost most by it (the largest remainder method), so that the amounts
    add up to the budget.

    Raises
    ------
    NotFoundError, NoSnapshotError
    ConflictError
        Nobody has earned anything, or the snapshot is so old that it has let go of most of its annotators.
    """
    found = find_snapshot(conn, snapshot)
    if found.crowd_pruned_at is not None:
        # the few rows that stay would share what all had earned
        raise ConflictError(
            f"the annotators of snapshot {found.number} are not kept: those of old ones are dropped in time"
        )
    earners = read_earners(conn, found.id)
    if not earners:
        raise ConflictError(
            f"no annotator of snapshot {found.number} has a positive ability: there is nobody to reward"
        )
    # Floats are exact fractions: no rounding but to the cent decides who gets what.
    weights = [Fraction(one["ability"]) * one["votes"] for one in earners]
    amounts = split_exactly(int(budget / CENT), weights)
    total = sum(weights)
    rewards = [
        Reward(**one, share=float(weight / total), amount=cents * CENT)
        for one, weight, cents in zip(earners, weights, amounts, strict=True)
    ]
    rewards.sort(key=lambda reward: -reward.amount)
    head = SnapshotHead.model_validate(found.model_dump())
    return Rewards(snapshot=head, budget=budget.quantize(CENT), rewards=rewards)


def split_exactly(whole: int, weights: Sequence[Fraction]) -> list[int]:
    """Split a whole number in proportion to positive weights, into whole numbers that add up to it.

    Nobody is further than one from the exact share; of equal remainders the earlier one is served first.
    """
    total = sum(weights)
    exact = [whole * weight / total for weight in weights]
    amounts = [int(share) for share in exact]
    by_remainder = sorted(range(len(weights)), key=lambda i: (amounts[i] - exact[i], i))
    for i in by_remainder[: whole - sum(amounts)]:
        amounts[i] += 1
    return amounts
