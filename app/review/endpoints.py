from decimal import Decimal
from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Query, Response
from pydantic import Field, TypeAdapter

from app.annotators import service as annotators
from app.api.dependencies import ReadView, Transaction, held, require
from app.api.pagination import Cursor, Id, Page, PageSize, paginate, read_cursor, read_single
from app.api.problems import problem_responses
from app.auth.callers import Caller
from app.database.timestamps import StorableTimestamp
from app.leaderboard.row_files import rows_csv
from app.policy.schemas import PolicySettings
from app.review import queue
from app.review import service as reviews
from app.review.evidence.annotator_votes import list_annotator_votes
from app.review.evidence.schemas import ListedVote
from app.review.groups import service as groups
from app.review.groups.schemas import MOST_AT_ONCE, DecisionsRequest, GroupDecision
from app.review.impact.service import Impacts
from app.review.judges import ComparedJudges, read_judges_compared
from app.review.previews import PolicyPreviews
from app.review.queries import flagged
from app.review.schemas import (
    AnnotatorDetail,
    Appeal,
    AppealRequest,
    Impact,
    JointImpact,
    PolicyPreview,
    QueueFilter,
    Review,
    Rewards,
)

router = APIRouter(tags=["annotators"])
policy_router = APIRouter(tags=["policy"])

_AppealPosition = TypeAdapter(tuple[StorableTimestamp, UUID])
Budget = Annotated[
    Decimal,
    Query(gt=0, le=10**12, decimal_places=2, description="The amount, in whole cents: 1500 or 1500.25."),
]


class ReviewsQuery(QueueFilter):
    """Which annotators to list."""

    watch: bool = Field(False, description="Those at or below ε without a flag, instead of the open flags.")
    limit: PageSize = 50
    cursor: Cursor = None


@router.get("/reviews", dependencies=[require("review:read")])
def get_reviews(conn: ReadView, query: Annotated[ReviewsQuery, Query()]) -> Page[Review]:
    """List open flags with their reasons, the strongest reason first or in another order.

    A reason's strength is a logarithm to base 10 of odds: a hundredth of the strongest test's ratio, or the odds that
    the ability is at or below ε, whichever is larger. With `watch` it lists the annotators whose ability is at or below
    ε and who have no flag; `evidence.not_flagged` says why. Needs scope `review:read`. Problems: `not-authenticated`,
    `scope-missing`; `invalid` for an unknown order, reason or cursor.
    """
    choose = queue.on_the_watch_list(conn) if query.watch else flagged
    after = read_cursor(query.cursor, queue.POSITIONS[query.sort])
    found = queue.list_reviews(conn, limit=query.limit + 1, selection=query, after=after, choose=choose)
    return paginate(found, query.limit, lambda last: last.place)


@router.get("/reviews/impact", dependencies=[require("review:read")], responses=problem_responses(404, 409))
def get_joint_impact(
    impacts: Annotated[Impacts, held(Impacts)],
    annotator: Annotated[
        list[str], Query(min_length=1, max_length=MOST_AT_ONCE, description="Annotators, by id or by key.")
    ],
) -> JointImpact:
    """Show the newest leaderboard without several annotators or, if none of them counts, with them.

    It fits again, one at a time; the answer is cached. Needs scope `review:read`. Problems: as for the impact of one.
    """
    return impacts.joint_impact(annotator)


@router.post("/reviews/decisions", status_code=201, responses=problem_responses(404, 409))
def post_decisions(
    body: DecisionsRequest, caller: Annotated[Caller, require("review")], conn: Transaction
) -> GroupDecision:
    """Decide on several annotators: one decision for each, for all of them or for none.

    All have the same `group_id`, and `POST /reviews/groups/decisions/{group_id}/undo` takes them back. Needs scope
    `review`. Problems: `not-authenticated`, `scope-missing`, `not-found`; `conflict` where one has no flag to dismiss,
    or nothing to withdraw; `invalid` for an unknown action, a blank reason, or no annotator.
    """
    group_id, taken = groups.decide_all(conn, body.annotators, body.action, reason=body.reason, decided_by=caller.name)
    return GroupDecision.of(group_id, taken)


@router.get(
    "/annotators/{annotator:path}/votes", dependencies=[require("review:read")], responses=problem_responses(404)
)
def list_votes(annotator: str, conn: ReadView, limit: PageSize = 50, cursor: Cursor = None) -> Page[ListedVote]:
    """List an annotator's votes, the one recorded last first, each with how likely it was by the newest leaderboard.

    Without the votes' metadata, which `GET /votes/{id}` shows. Needs scope `review:read`. Problems:
    `not-authenticated`, `scope-missing`, `not-found`; `invalid` for an unknown cursor.
    """
    found = annotators.find_annotator(conn, annotator)
    items = list_annotator_votes(conn, found, limit=limit + 1, before=read_single(cursor, Id))
    return paginate(items, limit, lambda last: (last.id,))


@router.get("/judges", dependencies=[require("review:read")])
def get_judges(conn: ReadView) -> ComparedJudges:
    """Compare the judges with the people, by the votes of the newest snapshot.

    The worker measures it after the publication. Needs scope `review:read`. Problems: `not-authenticated`,
    `scope-missing`.
    """
    return read_judges_compared(conn)


# A plain function: FastAPI runs it in a thread, where it waits for the fit. No transaction is open meanwhile.
@router.get(
    "/annotators/{annotator:path}/impact", dependencies=[require("review:read")], responses=problem_responses(404, 409)
)
def get_impact(
    annotator: str,
    impacts: Annotated[Impacts, held(Impacts)],
    _exact: Annotated[
        bool, Query(alias="exact", description="Without effect: every answer is a refit.", deprecated=True)
    ] = False,
) -> Impact:
    """Show the newest leaderboard without an annotator or, if the annotator does not count, with them.

    It is what a refit of the same votes publishes once a decision excludes the annotator, or trusts one who does not
    count; decisions that wait for a refit are in both leaderboards. This takes as long as
    a refit, one at a time; the answer is cached. Needs scope `review:read`. Problems: `not-authenticated`,
    `scope-missing`, `not-found`, `no-snapshot`; `not-reproducible` where the snapshot's votes are no longer known;
    `cannot-fit` where the votes left have no ranking; `impact-busy`: try again later; `fit-too-large`, `fit-lost`.
    """
    return impacts.impact(annotator)


# A key may hold slashes, so the parameter is a `path`, and the longer routes come first.
@router.get("/annotators/{annotator:path}", dependencies=[require("review:read")], responses=problem_responses(404))
def get_annotator(annotator: str, conn: ReadView) -> AnnotatorDetail:
    """Show an annotator, by id or by key: decisions, votes, and the evidence for and against.

    `evidence` compares the annotator's votes (the last 100,000 of them) with the newest leaderboard: agreement, side
    preference, ties, pace, the most surprising votes, votes by model, and the results of the tests. Needs scope
    `review:read`. Problems: `not-authenticated`, `scope-missing`, `not-found`.
    """
    return reviews.find_detail(conn, annotator)


@router.post("/annotators/{annotator:path}/appeals", status_code=201, responses=problem_responses(404, 409))
def post_appeal(
    annotator: str, appeal: AppealRequest, caller: Annotated[Caller, require("ingest")], conn: Transaction
) -> Appeal:
    """Appeal on an annotator's behalf.

    The arena's backend sends the note of its annotator, named by id or by key. Reviewers see it until they decide.
    Posting twice makes two appeals. Needs scope `ingest`. Problems: `not-authenticated`, `scope-missing`, `not-found`;
    `conflict` where five appeals of this annotator already wait; `invalid` for a blank note.
    """
    return reviews.submit_appeal(conn, annotator, appeal.note, submitted_by=caller.name)


@router.get("/appeals", dependencies=[require("review:read")], responses=problem_responses(404))
def list_appeals(
    conn: ReadView,
    annotator: Annotated[str | None, Query(description="Only appeals of this annotator, by id or by key.")] = None,
    answered: Annotated[bool, Query(description="Also appeals that a decision has followed.")] = False,
    limit: PageSize = 50,
    cursor: Cursor = None,
) -> Page[Appeal]:
    """List appeals that wait for a decision, the longest waiting first.

    Needs scope `review:read`. Problems: `not-authenticated`, `scope-missing`, `not-found`; `invalid` for an unknown
    cursor.
    """
    after = read_cursor(cursor, _AppealPosition)
    items = reviews.list_appeals(conn, limit=limit + 1, only_open=not answered, annotator=annotator, after=after)
    return paginate(items, limit, lambda last: (last.submitted_at, last.id))


@router.get(
    "/rewards",
    response_model=Rewards,
    dependencies=[require("review:read")],
    responses={
        200: {"content": {"text/csv": {"schema": {"type": "string"}}}},
        **problem_responses(404, 409),
    },
)
def get_rewards(
    conn: ReadView,
    budget: Budget,
    snapshot: Annotated[str | None, Query(description="Id or number of a snapshot; the newest by default.")] = None,
    format: Annotated[Literal["json", "csv"], Query()] = "json",  # noqa: A002  the parameter's public name
) -> Response:
    """Split a budget over the annotators.

    Shares are in proportion to max(ability, 0) × votes that counted in the snapshot. The amounts add up to the budget,
    to the cent. Needs scope `review:read`. Problems: `not-authenticated`, `scope-missing`, `no-snapshot`, `not-found`;
    `conflict` where no annotator has a positive ability, or the snapshot's annotators were deleted; `invalid` for a
    budget that is not an amount of money.
    """
    split = reviews.split_budget(conn, budget, snapshot)
    if format == "csv":
        return Response(rows_csv(split.rows()), media_type="text/csv; charset=utf-8")
    return Response(split.model_dump_json(), media_type="application/json")


# A plain function: FastAPI runs it in a thread, where it waits for the fit.
@policy_router.post("/policy/preview", dependencies=[require("admin")], responses=problem_responses(409))
def post_preview(body: PolicySettings, previews: Annotated[PolicyPreviews, held(PolicyPreviews)]) -> PolicyPreview:
    """Try a policy out on the votes on record, without putting it in force.

    Returns the annotators who would be flagged, excluded, pending, back in or cleared of a flag, how the leaderboard
    would move, and whether the refit would wait for an admin, with the reason. `compared_with` says what with: where
    votes or decisions wait for a refit, they are no effect of the policy. Takes as long as a refit, or as two the first
    time after something new. One preview runs at a time. Needs scope `admin`. Problems: `not-authenticated`,
    `scope-missing`; `invalid` where a setting is missing, unknown or out of range; `cannot-fit` where the votes have no
    ranking under it; `preview-busy`; `fit-too-large`, `fit-lost`.
    """
    return previews.preview(body.settings)
