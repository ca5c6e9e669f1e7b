from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from app.annotators import service as annotators
from app.annotators.decisions import service as decisions
from app.annotators.decisions.service import Action, Decision
from app.annotators.erasure import service as erasure
from app.annotators.erasure.service import Erasure
from app.annotators.service import Annotator, FoundAnnotator, PastEvidence, VotesSummary
from app.auth.service import Caller
from app.http.dependencies import ProcessServices, ReadView, Transaction, require
from app.http.pagination import Cursor, Number, Page, PageSize, paginate, read_cursor
from app.http.problems import problem_responses
from app.http.texts import Reason
from app.rating.settings import Standing
from app.review.appeals import service as appeals
from app.review.appeals.service import Appeal
from app.review.evidence.case import Case, make_case
from app.review.evidence.figures import Agreement
from app.review.evidence.votes import ListedVote, list_own_votes
from app.review.reasons import Review, list_reviews

router = APIRouter(tags=["annotators"], dependencies=[require("review")])

_Position = TypeAdapter(tuple[float, Number])
_HistoryPosition = TypeAdapter(tuple[Number])
_VotePosition = TypeAdapter(tuple[UUID])


class AnnotatorDetail(Annotator):
    """An annotator with every decision, open appeals, a summary of the votes, and what speaks for and against."""

    decisions: list[Decision] = Field(description="The newest first.")
    appeals: list[Appeal] = Field(
        description="Those that wait for a decision; answered ones too: `GET /appeals?annotator=…&answered=true`."
    )
    votes_summary: VotesSummary
    agreement: Agreement | None = Field(description="How the votes follow the newest board; also in `evidence`.")
    evidence: Case | None = Field(description="Beside the newest board; null before the first.")


class DecisionRequest(BaseModel):
    """What to decide, and why."""

    model_config = ConfigDict(extra="forbid")

    action: Action
    reason: Reason


class ErasureRequest(BaseModel):
    """Why an annotator is to be forgotten; without names."""

    model_config = ConfigDict(extra="forbid")

    reason: Reason


class DecisionTaken(Decision):
    """A decision on record, and the standing it gives the annotator."""

    annotator: Annotator


@router.get("/annotators", responses=problem_responses(401, 403, 422, 503))
def list_annotators(
    conn: ReadView,
    standing: Standing | None = None,
    annotator: Annotated[str | None, Query(description="Only the annotator with this key.")] = None,
    limit: PageSize = 50,
    cursor: Cursor = None,
) -> Page[Annotator]:
    """List annotators with their figures in the newest snapshot, the worst ability first.

    Needs scope `review`. Problems: `not-authenticated`, `scope-missing`; `invalid` for an unknown standing or cursor.
    """
    after = read_cursor(cursor, _Position)
    found = annotators.list_annotators(conn, limit=limit + 1, standing=standing, key=annotator, after=after)
    return paginate(found, limit, lambda last: last.position).convert(FoundAnnotator.public)


@router.get("/reviews", responses=problem_responses(401, 403, 422, 503))
def get_reviews(conn: ReadView, limit: PageSize = 50, cursor: Cursor = None) -> Page[Review]:
    """List open flags with their reasons, the strongest reason first.

    A reason's strength is the logarithm to base 10 of the strongest test's likelihood ratio, or of the odds that the
    ability is at or below ε, whichever is larger. Needs scope `review`. Problems: `not-authenticated`,
    `scope-missing`; `invalid` for an unknown cursor.
    """
    found = list_reviews(conn, limit=limit + 1, after=read_cursor(cursor, _Position))
    return paginate(found, limit, lambda last: last[0].position).convert(lambda one: one[1])


# Keys may hold slashes: `path` takes them, and the longer routes come first.
@router.get("/annotators/{annotator:path}/votes", responses=problem_responses(401, 403, 404, 422, 503))
def list_votes(annotator: str, conn: ReadView, limit: PageSize = 50, cursor: Cursor = None) -> Page[ListedVote]:
    """List an annotator's votes, the one recorded last first, each with how likely it was by the newest board.

    Without the votes' metadata, which `GET /votes/{id}` shows. Needs scope `review`. Problems: `not-authenticated`,
    `scope-missing`, `not-found`; `invalid` for an unknown cursor.
    """
    position = read_cursor(cursor, _VotePosition)
    found = annotators.find_annotator(conn, annotator)
    items = list_own_votes(conn, found, limit=limit + 1, before=position and position[0])
    return paginate(items, limit, lambda last: (last.id,))


@router.get("/annotators/{annotator:path}/history", responses=problem_responses(401, 403, 404, 422, 503))
def list_history(annotator: str, conn: ReadView, limit: PageSize = 50, cursor: Cursor = None) -> Page[PastEvidence]:
    """List an annotator's figures in past snapshots, the newest first.

    Needs scope `review`. Problems: `not-authenticated`, `scope-missing`, `not-found`; `invalid` for an unknown cursor.
    """
    position = read_cursor(cursor, _HistoryPosition)
    found = annotators.find_annotator(conn, annotator)
    items = annotators.list_history(conn, found, limit=limit + 1, before=position and position[0])
    return paginate(items, limit, lambda last: (last.number,))


@router.get("/annotators/{annotator:path}", responses=problem_responses(401, 403, 404, 503))
def get_annotator(annotator: str, conn: ReadView) -> AnnotatorDetail:
    """Show an annotator, by id or by key: decisions, votes, and the evidence for and against.

    `evidence` compares the annotator's own votes (the last 100,000 of them) with the newest board: agreement, side
    preference, ties, pace, the most surprising votes, votes by model, what the laboratory's tests found. Needs
    scope `review`. Problems: `not-authenticated`, `scope-missing`, `not-found`.
    """
    found = annotators.find_annotator(conn, annotator)
    case = make_case(conn, found)
    return AnnotatorDetail(
        **found.public().model_dump(),
        decisions=decisions.list_decisions(conn, found),
        appeals=appeals.list_appeals(conn, limit=appeals.MAX_OPEN, annotator=str(found.id)),
        votes_summary=annotators.summarise_votes(conn, found),
        agreement=case and case.agreement,
        evidence=case,
    )


@router.post(
    "/annotators/{annotator:path}/decisions", status_code=201, responses=problem_responses(401, 403, 404, 409, 422, 503)
)
def post_decision(
    annotator: str,
    decision: DecisionRequest,
    caller: Annotated[Caller, require("review")],
    conn: Transaction,
) -> DecisionTaken:
    """Decide on an annotator, by id or by key.

    `exclude` leaves the votes out; `reinstate` counts them whatever the rule says; `trust` does so and is never
    flagged; `dismiss` closes an open flag until the evidence is materially worse; `withdraw` gives the annotator back
    to the rule. It shapes the leaderboard from the next refit on. Decisions stay on record for ever; posting twice
    records two. Needs scope `review`. Problems: `not-authenticated`, `scope-missing`, `not-found`; `conflict` where
    there is no flag to dismiss or nothing to withdraw; `invalid` for an unknown action or a reason that is blank or
    names the annotator: it is kept for ever.
    """
    found, taken = decisions.decide(conn, annotator, decision.action, reason=decision.reason, decided_by=caller.name)
    return DecisionTaken(**taken.model_dump(), annotator=found.public())


@router.post("/annotators/{annotator:path}/erase", responses=problem_responses(401, 403, 404, 422, 503))
def erase_annotator(
    annotator: str,
    body: ErasureRequest,
    caller: Annotated[Caller, require("admin")],
    services: ProcessServices,
) -> Erasure:
    """Cut the link between an annotator's votes and the person, for good.

    The key, by which as by the id the annotator may be named here, is replaced by a random one; the votes' metadata,
    the annotator's notes and every other place that could name the person are cleared. Votes and scores stay as they
    are. Who votes under the old key afterwards is a new annotator (replicas may go by it 5 seconds longer). Done
    again, it clears what came in meanwhile. Needs scope `admin`. Problems: `not-authenticated`, `scope-missing`,
    `not-found`; `invalid` for a reason that is blank or names the annotator: it is kept for ever.
    """
    with services.database.begin() as conn:
        erased = erasure.erase_annotator(conn, annotator, reason=body.reason, erased_by=caller.name)
    services.known_names.forget()  # once it is committed, or the old key would be looked up and remembered again
    return erased
