from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import AfterValidator, Field

from app.annotators.schemas import Annotator, Decision, Named, VotesSummary
from app.api.texts import Reason as Note
from app.leaderboard.diff.schemas import RowChange
from app.policy.schemas import Policy
from app.rating.settings import TASTE_TESTS, Standing
from app.review.evidence.schemas import Agreement, Case, JudgedAbility, VoteWeights
from app.schemas import ClosedModel, FrozenModel
from app.snapshots.schemas import SnapshotHead


class AppealRequest(ClosedModel):
    """An annotator's note to the reviewers."""

    note: Note = Field(description="The annotator's words. Do not name a person or a key here.")


class Appeal(FrozenModel):
    """An annotator's note to the reviewers, sent by the arena's backend."""

    id: UUID
    annotator_id: UUID
    annotator: str = Field(description="The key the votes carry.")
    note: str
    submitted_by: str = Field(description="Name of the API key that submitted it.")
    submitted_at: datetime
    open: bool = Field(description="Whether no decision on the annotator has followed yet.")


class AnnotatorDetail(Annotator):
    """An annotator with every decision, open appeals, a summary of the votes, and the evidence for and against."""

    decisions: list[Decision] = Field(description="The newest first.")
    appeals: list[Appeal] = Field(
        description="Those that wait for a decision. Answered ones too: `GET /appeals?annotator=…&answered=true`."
    )
    votes_summary: VotesSummary
    agreement: Agreement | None = Field(description="How the votes follow the newest leaderboard; also in `evidence`.")
    evidence: Case | None = Field(description="Compared with the newest leaderboard; null before the first.")


class Reason(FrozenModel):
    """Why an annotator is in the queue, by the newest refit."""

    strength: float = Field(
        description="Logarithm to base 10 of odds: a hundredth of the strongest test's ratio, or the odds that the "
        "ability is at or below ε, whichever is larger; 0 for neither."
    )
    rule: str | None = Field(description="What flags: `ability`, or a test's name; null where nothing is noted.")
    held: bool = Field(description="Whether the flag only remains from before: the figures are in the rule's margin.")
    judged: JudgedAbility | None = Field(description="The ability by which the rule judges; null where unknown.")
    words: list[str] = Field(description="The reasons in sentences: the likeliest explanation first.")
    weights: VoteWeights | None = Field(None, description="As in `laboratory` of the evidence.")
    not_flagged: str | None = Field(
        description="Why the annotator has no flag, though the ability is at or below ε; null for others."
    )


class Review(Annotator):
    """An open flag, or an annotator on the watch list, and the reason."""

    evidence: Reason


Sort = Literal["strength", "votes", "date", "name"]
RuleName = Literal["ability", "coin", "equal", "follower", "favour", "against", "side"]


def _given(rule: RuleName | Literal[""] | None) -> RuleName | None:
    return rule or None  # a form sends "" for any


class QueueFilter(FrozenModel):
    """Which open flags are listed, and in which order."""

    sort: Sort = Field(
        "strength",
        description="strength: the strongest reason first. votes: the most votes first, and so the largest share of "
        "them. date: the annotator that came last first. name: by key.",
    )
    rule: Annotated[RuleName | Literal[""] | None, AfterValidator(_given)] = Field(
        None, description="Only those flagged by this: `ability`, or a test's name; empty for any."
    )
    min_share: float = Field(0.0, ge=0, le=1, description="Only those with this share of the votes read, or more.")

    @property
    def shows_groups(self) -> bool:
        """Whether groups are cases; by another reason their members are."""
        return self.rule in (None, *TASTE_TESTS)

    @property
    def query(self) -> dict[str, str]:
        """What an address says of it: all that differs from the default."""
        differing = self.model_dump(include={"sort", "rule", "min_share"}, exclude_defaults=True)
        return {name: str(value) for name, value in differing.items()}


class QueueState(FrozenModel):
    """What waits for a decision.

    Attributes
    ----------
    published : whether there is a snapshot, and so a rule that has spoken
    votes_read : of the newest snapshot
    selected : the flags of a selection, of all that are `flagged`
    strongest : strength of the strongest reason
    watched : annotators at or below ε without a flag
    threshold : ε of the newest snapshot
    min_votes : δ of the policy in force
    """

    published: bool
    votes_read: int
    flagged: int
    selected: int
    strongest: float
    watched: int
    appeals: int
    threshold: float | None
    min_votes: int


class Reward(Named):
    """One annotator's share of the budget."""

    ability: float = Field(description="In this snapshot; 1 is the mean annotator.")
    votes: int = Field(description="Votes that counted in this snapshot.")
    share: float = Field(description="ability × votes, divided by the sum over all annotators.")
    amount: Decimal = Field(description="In the budget's currency, to the cent.")


class Rewards(FrozenModel):
    """A budget split over the annotators of one snapshot; the amounts add up to it exactly."""

    snapshot: SnapshotHead
    budget: Decimal
    rewards: list[Reward] = Field(description="The largest first.")

    def rows(self) -> list[dict[str, Any]]:
        """Return the rewards as rows of a table."""
        return [
            {**row.model_dump(exclude={"id", "amount"}), "id": str(row.id), "amount": f"{row.amount:.2f}"}
            for row in self.rewards
        ]


class ModelImpact(FrozenModel):
    """What would change for one model; null where it has no score before or after."""

    model: str
    score_before: float | None
    score_after: float | None
    change: float | None = Field(description="Elo points.")
    rank_before: int | None = Field(description="1 is best, within the component; null for a provisional model.")
    rank_after: int | None
    place_change: float | None = Field(
        description="Change of the expected place: 1 plus, for every other ranked model, the probability that it is "
        "above. Negative is up; null for a provisional model."
    )
    beyond_interval: bool | None = Field(description="Whether the later score lies outside the published interval.")


class _Impact(FrozenModel):
    snapshot: int = Field(description="Number of the snapshot.")
    waiting: int = Field(
        description="Annotators with decisions that wait for a refit: both leaderboards have these decisions."
    )
    what: Literal["left out", "let in"] = Field(description="let in: the votes do not count now.")
    how: Literal["influence", "refit"] = Field(
        description="influence: one Newton step from the fit; refit: fitted again."
    )
    votes: int = Field(description="Votes, of those that the snapshot read, that are left out or let in.")
    summary: list[str] = Field(description="The same in sentences, the most important first.")
    models: list[ModelImpact] = Field(description="In the order of the published leaderboard.")


class Impact(_Impact, Named):
    """The leaderboard without an annotator who counts, or with one who does not. Nothing is published."""


class JointImpact(_Impact):
    """The leaderboard without some annotators or, if none of them counts, with them. Nothing is published."""


Change = Literal["flagged", "excluded", "pending", "back_in", "cleared"]
"""What an annotator whose standing changes becomes."""


class StandingChange(Named):
    """One annotator whose standing would change."""

    before: Standing = Field(description="Without the previewed policy: after the next refit, if one is compared with.")
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


class PolicyPreview(FrozenModel):
    """What a policy would do to the votes on record now; nothing of it has happened."""

    policy_version: int = Field(description="The policy in force, which this one was compared with.")
    settings: Policy = Field(description="The policy previewed.")
    compared_with: Literal["next refit", "snapshot", "nothing"] = Field(
        description="next refit: what it would publish under the policy in force, because votes, decisions or a policy "
        "wait for it. snapshot: the newest, because nothing waits, that refit would fail, or this is the policy in "
        "force. nothing: there is no leaderboard."
    )
    snapshot: int | None = Field(description="Number of the newest snapshot.")
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
    models: list[RowChange] = Field(description="The leaderboard against the one that it is compared with.")

    @property
    def basis(self) -> str:
        """What is compared with what, in a sentence."""
        if self.compared_with == "next refit":
            return (
                "Compared with the next refit under the policy in force: what already waits for it is not counted "
                "as an effect of the change."
            )
        if self.snapshot is None:
            return "There is no leaderboard to compare with yet."
        return f"Compared with snapshot {self.snapshot}, the newest."
