from typing import Any, Literal

from pydantic import Field

from app.schemas import FrozenModel
from app.snapshots.schemas import LeaderboardMethod, SnapshotHead


class RowChange(FrozenModel):
    """One model in both snapshots; fields are null where the model is missing from one or has no score.

    Ranks and points compare only within a component. A component's number means nothing outside its snapshot.
    """

    model: str
    kind: Literal["stayed", "entered", "left"]
    score_before: float | None = None
    score_after: float | None = None
    comparable: bool | None = Field(
        None,
        description="Whether the model's component holds the same models in both snapshots; models that are in only "
        "one snapshot do not matter. Null for a model that is in only one snapshot.",
    )
    change: float | None = Field(None, description="Elo points; null where the model is not `comparable`.")
    beyond_interval: bool | None = Field(
        None, description="Whether the later score lies outside the earlier interval; null where `change` is."
    )
    rank_before: int | None = Field(None, description="1 is best, within the component of that snapshot.")
    rank_after: int | None = None
    component_before: int | None = Field(None, description="The component's number in the earlier snapshot.")
    component_after: int | None = Field(None, description="The component's number in the later snapshot.")
    identified_before: bool | None = Field(None, description="Whether the votes determined the score.")
    identified_after: bool | None = None
    votes_before: int = 0
    votes_after: int = 0

    @property
    def changed(self) -> bool:
        """Whether it entered, left, has another rank, or left its interval."""
        return self.kind != "stayed" or self.rank_before != self.rank_after or bool(self.beyond_interval)


class AnnotatorChanges(FrozenModel):
    """How many annotators changed their standing."""

    entered: int = Field(description="Annotators that count now and did not before, by more votes or a new decision.")
    newly_excluded: int
    newly_excluded_votes: int = Field(description="Votes of the newly excluded annotators.")
    newly_flagged: int
    cleared: int = Field(description="Annotators that are no longer flagged, and not excluded.")


class Causes(FrozenModel):
    """What changed between two refits: votes, annotators, settings, policy, version."""

    votes_read: int = Field(description="Votes read by the later snapshot minus votes read by the earlier.")
    votes_used: int = Field(description="Votes counted by the later snapshot minus votes counted by the earlier.")
    same_votes: bool = Field(description="Whether both read exactly the same votes.")
    annotators: AnnotatorChanges | None = Field(
        description="Null where one snapshot is so old that its annotators' rows were deleted."
    )
    settings: dict[str, tuple[Any, Any]] = Field(
        description="Settings that changed, of the fit and `max_votes_per_day` of the policy: before, after."
    )
    policy_version: tuple[int, int]
    code_version: tuple[str, str]


class SnapshotDiff(FrozenModel):
    """What moved between two snapshots, how far, and what changed between their refits."""

    before: SnapshotHead
    after: SnapshotHead
    method: LeaderboardMethod
    summary: list[str] = Field(description="The same in sentences, the most important first.")
    causes: Causes
    models: list[RowChange] = Field(description="As ranked in the later snapshot; models that left come last.")
