from uuid import UUID

from fastapi import APIRouter
from pydantic import TypeAdapter

from app.annotators import service as annotators
from app.annotators.decisions import service as decisions
from app.http.dependencies import ReadView, require
from app.http.pagination import Cursor, Number, Page, PageSize, paginate, read_cursor
from app.http.problems import problem_responses
from app.review.appeals import service as appeals
from app.review.evidence.annotator_votes import list_annotator_votes
from app.review.evidence.case import make_case
from app.review.evidence.schemas import ListedVote
from app.review.queue import list_reviews
from app.review.schemas import AnnotatorDetail, Review

router = APIRouter(tags=["annotators"], dependencies=[require("review")])

_Position = TypeAdapter(tuple[float, Number])
_VotePosition = TypeAdapter(tuple[UUID])


@router.get("/reviews", responses=problem_responses(401, 403, 422, 503))
def get_reviews(conn: ReadView, limit: PageSize = 50, cursor: Cursor = None) -> Page[Review]:
    """List open flags with their reasons, the strongest reason first.

    A reason's strength is the logarithm to base 10 of the strongest test's likelihood ratio, or of the odds that the
    ability is at or below ε, whichever is larger. Needs scope `review`. Problems: `not-authenticated`,
    `scope-missing`; `invalid` for an unknown cursor.
    """
    found = list_reviews(conn, limit=limit + 1, after=read_cursor(cursor, _Position))
    return paginate(found, limit, lambda last: last[0].position).convert(lambda one: one[1])


# A key may hold slashes, so the parameter is a `path`, and the longer routes come first.
@router.get("/annotators/{annotator:path}/votes", responses=problem_responses(401, 403, 404, 422, 503))
def list_votes(annotator: str, conn: ReadView, limit: PageSize = 50, cursor: Cursor = None) -> Page[ListedVote]:
    """List an annotator's votes, the one recorded last first, each with how likely it was by the newest leaderboard.

    Without the votes' metadata, which `GET /votes/{id}` shows. Needs scope `review`. Problems: `not-authenticated`,
    `scope-missing`, `not-found`; `invalid` for an unknown cursor.
    """
    position = read_cursor(cursor, _VotePosition)
    found = annotators.find_annotator(conn, annotator)
    items = list_annotator_votes(conn, found, limit=limit + 1, before=position and position[0])
    return paginate(items, limit, lambda last: (last.id,))


@router.get("/annotators/{annotator:path}", responses=problem_responses(401, 403, 404, 503))
def get_annotator(annotator: str, conn: ReadView) -> AnnotatorDetail:
    """Show an annotator, by id or by key: decisions, votes, and the evidence for and against.

    `evidence` compares the annotator's votes (the last 100,000 of them) with the newest leaderboard: agreement, side
    preference, ties, pace, the most surprising votes, votes by model, and the results of the tests. Needs scope
    `review`. Problems: `not-authenticated`, `scope-missing`, `not-found`.
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
