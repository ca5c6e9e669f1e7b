from typing import Self

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import RowMapping

from app.api.pagination import Page
from app.snapshots.schemas import SnapshotHead


class Matchup(BaseModel):
    """Results of one model against another in the counted votes, and the prediction of the leaderboard."""

    model_config = ConfigDict(frozen=True)

    model_a: str
    model_b: str
    votes: int
    wins_a: int
    ties: int
    wins_b: int
    observed: float | None = Field(description="Share of votes that model_a won; a tie is half; null without votes.")
    predicted: float | None = Field(
        description="Probability that model_a wins with a typical annotator, by the scores; null where one is missing."
    )
    lower: float | None = Field(description="Lower end of the prediction's interval.")
    upper: float | None = Field(description="Upper end of the prediction's interval.")

    @classmethod
    def of(cls, row: RowMapping) -> Self:
        """Return the pair of a stored row."""
        votes = row["wins_a"] + row["ties"] + row["wins_b"]
        observed = (row["wins_a"] + row["ties"] / 2) / votes if votes else None
        return cls(**row, votes=votes, observed=observed)

    def swapped(self) -> Self:
        """Return the pair from the side of the other model."""
        return self.model_copy(
            update={
                "model_a": self.model_b,
                "model_b": self.model_a,
                "wins_a": self.wins_b,
                "wins_b": self.wins_a,
                "observed": _other_side(self.observed),
                "predicted": _other_side(self.predicted),
                "lower": _other_side(self.upper),
                "upper": _other_side(self.lower),
            }
        )


class MatchupPage(Page[Matchup]):
    """Pairs of models in the counted votes of one snapshot."""

    snapshot: SnapshotHead


def _other_side(probability: float | None) -> float | None:
    return None if probability is None else 1.0 - probability
