from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

from sqlalchemy import Connection

from app.errors import ConflictError
from app.review.queries import read_earners
from app.review.schemas import Reward, Rewards
from app.snapshots.schemas import SnapshotHead
from app.snapshots.service import find_snapshot

CENT = Decimal("0.01")


def split_budget(conn: Connection, budget: Decimal, snapshot: str | None = None) -> Rewards:
    """Split a budget in proportion to max(ability, 0) × counted votes.

    An annotator outside the fit (too few votes, or excluded) or with an ability of 0 or less gets nothing. Amounts are
    rounded down to cents. The cents left over go, one each, to the annotators that lost most by rounding (the largest
    remainder method). So the amounts add up to the budget.

    Raises
    ------
    NotFoundError, NoSnapshotError
    ConflictError
        No annotator has a positive ability, or the snapshot is so old that its annotators were deleted.
    """
    found = find_snapshot(conn, snapshot)
    if found.crowd_pruned_at is not None:
        # the few rows that remain would share what all annotators earned
        raise ConflictError(f"the annotators of snapshot {found.number} are not kept: old snapshots drop them")
    earners = read_earners(conn, found.id)
    if not earners:
        raise ConflictError(
            f"no annotator of snapshot {found.number} has a positive ability: there is no one to reward"
        )
    # Fractions hold floats exactly: amounts are rounded only to the cent.
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

    Each part differs from its exact share by less than one. Of equal remainders the earlier one comes first.
    """
    total = sum(weights)
    exact = [whole * weight / total for weight in weights]
    amounts = [int(share) for share in exact]
    by_remainder = sorted(range(len(weights)), key=lambda i: (amounts[i] - exact[i], i))
    for i in by_remainder[: whole - sum(amounts)]:
        amounts[i] += 1
    return amounts
