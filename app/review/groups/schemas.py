import math
from typing import Annotated, Literal
from uuid import UUID

from pydantic import AfterValidator, BaseModel, Field

from app.annotators.schemas import Decision, DecisionRequest, DecisionTaken, FoundAnnotator, Named
from app.naming.names import Name
from app.schemas import FrozenModel

Test = Literal["favour", "against"]
Taken = list[tuple[FoundAnnotator, Decision]]
MOST_AT_ONCE = 500
"""Annotators that one decision is about."""


class Member(Named):
    """An annotator of a group."""

    odds: float = Field(description="To 1, that the annotator always votes for the model, or against it.")
    votes: int = Field(description="Votes on record at the newest refit.")

    @property
    def log10_odds(self) -> float:
        """Logarithm to base 10 of the odds."""
        return math.log10(self.odds)


class Group(FrozenModel):
    """Annotators with an open flag who push, or bury, the same model, by the newest refit."""

    test: Test = Field(description="favour: they always vote for the model; against: always against it.")
    model: str
    annotators: list[Member] = Field(description="The likeliest first.")
    votes: int = Field(description="Votes of all of them.")


class Groups(BaseModel):
    """Groups of two or more annotators."""

    groups: list[Group] = Field(description="The largest first.")


class GroupDecisionRequest(DecisionRequest):
    """What to decide on a group, and why."""

    test: Test
    model: Name
    annotators: list[UUID] | None = Field(
        None, description="The members that were seen: if the group has changed, nothing is decided."
    )


def _each_once(annotators: list[UUID]) -> list[UUID]:
    if len(set(annotators)) < len(annotators):
        raise ValueError("must have each annotator once")
    return annotators


class DecisionsRequest(DecisionRequest):
    """What to decide on several annotators, and why."""

    annotators: Annotated[list[UUID], AfterValidator(_each_once)] = Field(
        min_length=1, max_length=MOST_AT_ONCE, description="Each once."
    )


class GroupDecision(BaseModel):
    """One decision for each annotator."""

    group_id: UUID = Field(description="What takes them all back.")
    decisions: list[DecisionTaken]

    @classmethod
    def of(cls, group_id: UUID, taken: Taken) -> "GroupDecision":
        """Return the answer for decisions just taken."""
        decisions = [DecisionTaken(**one.model_dump(), annotator=found) for found, one in taken]
        return cls(group_id=group_id, decisions=decisions)
