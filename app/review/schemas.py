from pydantic import BaseModel, ConfigDict, Field

from app.annotators.schemas import Annotator, Decision, FoundAnnotator, VotesSummary
from app.review.appeals.schemas import Appeal
from app.review.evidence.schemas import Agreement, Case


class AnnotatorDetail(Annotator):
    """An annotator with every decision, open appeals, a summary of the votes, and the evidence for and against."""

    decisions: list[Decision] = Field(description="The newest first.")
    appeals: list[Appeal] = Field(
        description="Those that wait for a decision. Answered ones too: `GET /appeals?annotator=…&answered=true`."
    )
    votes_summary: VotesSummary
    agreement: Agreement | None = Field(description="How the votes follow the newest leaderboard; also in `evidence`.")
    evidence: Case | None = Field(description="Compared with the newest leaderboard; null before the first.")


class Reason(BaseModel):
    """Why an annotator is in the queue, by the newest refit."""

    model_config = ConfigDict(frozen=True)

    strength: float = Field(
        description="Logarithm to base 10: of the strongest test's likelihood ratio, or of the odds that the ability "
        "is at or below ε, whichever is larger; 0 for neither."
    )
    rule: str | None = Field(description="What flags: `ability`, or a test's name; null where nothing is noted.")
    held: bool = Field(description="Whether the flag only remains from before: the figures are in the rule's margin.")
    words: list[str] = Field(description="The reasons in sentences, the strongest first.")


class Review(Annotator):
    """An open flag and its reason."""

    evidence: Reason


class FoundReview(FoundAnnotator):
    """An open flag and its position in the queue."""

    reason_strength: float

    @property
    def position(self) -> tuple[float, int]:
        """The flag's position, the strongest reason first."""
        return self.reason_strength, self.annotator_id
