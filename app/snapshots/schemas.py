from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BeforeValidator, Field

from app.schemas import FrozenModel

LeaderboardMethod = Literal[
    "am-elo", "m-elo", "m-elo-all", "elo", "people", "judges", "all", "people+judges", "style", "weighted"
]
"""- am-elo: the snapshot's own fit.
- people, judges, all: of the votes of these, where people and judges vote; each judge with a lean to a side.
- people+judges: the people's, sharpened by judges who saw their battles and others.
- style: of answers that differ in no feature of the policy's style_features.
- weighted: of all categories of a dimension, or of criteria, with the policy's weights.
- m-elo: Bradley-Terry on the same votes.
- m-elo-all: Bradley-Terry on every vote that counts, those of pending and excluded annotators too.
- elo: the mean of Elo over random orders of the same votes, where that is cheap."""
AskedMethod = Annotated[
    LeaderboardMethod, BeforeValidator(lambda text: text.replace(" ", "+") if isinstance(text, str) else text)
]
"""A method in an address, where an unescaped plus sign is a space."""


class SnapshotHead(FrozenModel):
    """The names of a snapshot, and the votes behind it."""

    id: UUID
    number: int = Field(description="Grows with every publication; gaps are possible.")
    published_at: datetime
    policy_version: int
    votes_read: int = Field(description="Votes on record when it was made; of a ranking, its pairs.")
    votes_used: int = Field(
        description="Of these, the ones that count. `diagnostics.rankings` has both by whole votes."
    )
    votes_sealed: int | None = Field(
        description="How many of these are sealed, cast by a battle's token; null for snapshots from before there were."
    )
    votes_hash: str = Field(description="SHA-256 of the votes read, the same for the same votes in any order.")


class Snapshot(SnapshotHead):
    """A snapshot without its rows: everything that is needed to make it again."""

    refit_id: UUID
    settings: dict[str, Any] = Field(description="The settings the fit ran with.")
    diagnostics: dict[str, Any] = Field(description="What the refit reports about the fit and the votes.")
    vote_set: str = Field(description="The database transactions whose votes were read, as a pg_snapshot.")
    code_version: str
    crowd_pruned_at: datetime | None = Field(
        description="When its matchups and most of its annotators' rows were deleted to save space; null if never. "
        "Rows are kept whose standing differs from the snapshot before or after, or on which a decision was taken."
    )


class SnapshotNews(FrozenModel):
    """What listeners get when a snapshot is published."""

    number: int = Field(description="The snapshot's number: `GET /snapshots/{number}`, `GET /leaderboard`.")


class SnapshotDetail(Snapshot):
    """A snapshot without its rows, and the leaderboards that it has."""

    boards: list[LeaderboardMethod] = Field(description="The methods with a leaderboard of all votes.")
    tags: list[str] = Field(description="The tags with an am-elo leaderboard, by name.")


class Freshness(FrozenModel):
    """How old a published leaderboard is, and whether new votes wait for the next one."""

    published_at: datetime
    age_seconds: float = Field(description="Since it was published, by the database's clock.")
    votes_not_in_board: int = Field(description="Votes recorded since; the next refit reads them.")
    stale: bool = Field(
        description="Whether votes wait and the leaderboard is older than the policy's stale_after_seconds. "
        "Also true while published_at lies in the future: the database's clock was ahead, and the age is not known."
    )
    next_refit_due_at: datetime | None = Field(
        description="Time of the next scheduled refit; in the past while it runs. Null while nothing is new: no vote, "
        "retraction, merge, decision or policy."
    )
