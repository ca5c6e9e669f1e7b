from decimal import Decimal
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response

from app.http.dependencies import ReadView, require
from app.http.problems import problem_responses
from app.leaderboard.row_files import rows_csv
from app.review.rewards import service as rewards
from app.review.rewards.schemas import Rewards

router = APIRouter(tags=["annotators"])

Budget = Annotated[
    Decimal,
    Query(gt=0, le=10**12, decimal_places=2, description="The amount, in whole cents: 1500 or 1500.25."),
]


@router.get(
    "/rewards",
    response_model=Rewards,
    dependencies=[require("review")],
    responses={
        200: {"content": {"text/csv": {"schema": {"type": "string"}}}},
        **problem_responses(401, 403, 404, 409, 422, 503),
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
    to the cent. Needs scope `review`. Problems: `not-authenticated`, `scope-missing`, `no-snapshot`, `not-found`;
    `conflict` where no annotator has a positive ability, or the snapshot's annotators were deleted; `invalid` for a
    budget that is not an amount of money.
    """
    split = rewards.split_budget(conn, budget, snapshot)
    if format == "csv":
        return Response(rows_csv(split.rows()), media_type="text/csv; charset=utf-8")
    return Response(split.model_dump_json(), media_type="application/json")
