"""What an annotator may know about themselves."""

from datetime import datetime
from uuid import UUID

from pydantic import Field

from app.annotators.schemas import Action, VotesSummary
from app.rating.settings import Standing
from app.schemas import FrozenModel
from app.votes.rules import Winner


class OwnAppeal(FrozenModel):
    """An appeal on the annotator's behalf, and the decision that answered it."""

    id: UUID
    note: str
    submitted_at: datetime
    open: bool = Field(description="Whether it still waits for a decision.")
    outcome: Action | None = Field(description="The first decision after it; null while it is open.")
    decided_at: datetime | None


class OwnStanding(FrozenModel):
    """An annotator's standing, votes and appeals, for the annotator alone."""

    standing: Standing = Field(description="By the newest snapshot; `pending` before the first vote.")
    votes_needed: int = Field(description="How many more votes it takes until the annotator counts; 0 for enough.")
    votes_summary: VotesSummary
    appeals: list[OwnAppeal] = Field(description="The last 100, the newest first.")


class OwnVote(FrozenModel):
    """One of the annotator's votes, under the models' current names."""

    id: UUID
    battle_id: str | None
    criterion: str | None = Field(None, description="The question that the vote answers; null means overall.")
    model_a: str = Field(description="Of a ranking: of one of its pairs, as model_b and winner are.")
    model_b: str
    winner: Winner
    ranking: list[list[str]] | None = Field(None, description="As it was given; null for a vote on a pair.")
    voted_at: datetime | None
    received_at: datetime
    retracted: bool = Field(description="Whether it was retracted, and so does not count.")
    replaced: bool = Field(description="Whether a later verdict on the battle took its place.")


class OwnPlace(FrozenModel):
    """A model in an annotator's own order, and on the newest leaderboard."""

    model: str
    votes: int = Field(description="The annotator's votes on it.")
    score: float = Field(description="By the annotator's votes alone, Elo points; the models' mean is 1,000.")
    lower: float = Field(description="Lower end of its 95 % interval.")
    upper: float
    board_rank: int | None = Field(None, description="On the newest leaderboard by am-ELO; null if it is not there.")
    board_score: float | None = None
    board_lower: float | None = None
    board_upper: float | None = None


class OwnOrder(FrozenModel):
    """The order that an annotator's votes show, the best model first, beside everyone's."""

    votes: int = Field(description="The annotator's votes that are not retracted.")
    useful: int = Field(description="How many of them count on the newest leaderboard.")
    votes_needed: int = Field(description="How many more votes it takes until there is an order.")
    models: list[OwnPlace]
