"""How the criteria of votes agree on the order of models, as readers get it."""

from itertools import combinations

from pydantic import Field
from sqlalchemy import Connection

from app.rating.verdict.order import compare_orders
from app.schemas import FrozenModel
from app.snapshots.confidence import list_orders
from app.snapshots.queries import list_leaderboards
from app.snapshots.schemas import SnapshotHead
from app.votes.rules import OVERALL, criterion_of


class CriteriaPair(FrozenModel):
    """Two criteria, and the pairs of models that have a score by both."""

    first: str
    second: str
    pairs: int = Field(description="Pairs of models.")
    same: int = Field(description="Of these, pairs that both criteria surely put into the same order, each at 95 %.")
    opposite: int = Field(description="Pairs that they surely put into opposite orders.")
    tau: float | None = Field(description="Kendall's τ of the scores; null without a pair.")
    tau_lower: float | None = Field(description="τ if the order of every other pair were opposite.")
    tau_upper: float | None = Field(description="τ if it were the same.")


class CriteriaAgreement(FrozenModel):
    """The criteria that have a leaderboard, and how each two agree."""

    snapshot: SnapshotHead
    criteria: list[str] = Field(description="`overall`, the main leaderboard, first.")
    agreement: list[CriteriaPair]


def compare_criteria(conn: Connection, snapshot: SnapshotHead) -> CriteriaAgreement:
    """Compare the leaderboards of a snapshot's criteria; those without the errors of their scores are left out."""
    tags = {OVERALL: ""} | {name: tag for _, tag in list_leaderboards(conn, snapshot.id) if (name := criterion_of(tag))}
    found = {name: list_orders(conn, snapshot.id, tag) for name, tag in tags.items()}
    orders = {name: groups for name, groups in found.items() if groups}
    return CriteriaAgreement(
        snapshot=snapshot,
        criteria=list(tags),
        agreement=[
            CriteriaPair(first=a, second=b, **compare_orders(orders[a], orders[b])._asdict())
            for a, b in combinations(orders, 2)
        ],
    )
