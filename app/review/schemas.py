from pydantic import Field

from app.annotators.schemas import Annotator, Decision, VotesSummary
from app.review.appeals.service import Appeal
from app.review.evidence.case import Case
from app.review.evidence.figures import Agreement


class AnnotatorDetail(Annotator):
    """An annotator with every decision, open appeals, a summary of the votes, and the evidence for and against."""

    decisions: list[Decision] = Field(description="The newest first.")
    appeals: list[Appeal] = Field(
        description="Those that wait for a decision. Answered ones too: `GET /appeals?annotator=…&answered=true`."
    )
    votes_summary: VotesSummary
    agreement: Agreement | None = Field(description="How the votes follow the newest leaderboard; also in `evidence`.")
    evidence: Case | None = Field(description="Compared with the newest leaderboard; null before the first.")
