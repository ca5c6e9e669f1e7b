from typing import Annotated

from fastapi import APIRouter, Query

from app.http.dependencies import ProcessServices, require
from app.http.problems import problem_responses
from app.review.impact.schemas import Impact

router = APIRouter(tags=["annotators"], dependencies=[require("review")])


# A plain function: FastAPI runs it in a thread, where it waits for the fit. No transaction is open meanwhile.
@router.get("/annotators/{annotator:path}/impact", responses=problem_responses(401, 403, 404, 409, 422, 500, 503))
def get_impact(
    annotator: str,
    services: ProcessServices,
    exact: Annotated[bool, Query(description="Refit, instead of one Newton step.")] = False,
) -> Impact:
    """Show the newest leaderboard without an annotator or, if the annotator does not count, with them.

    Every other annotator stays in or out. The scores come from one Newton step (influence). A true refit gives them
    with `exact`, for an annotator that does not count, for one with more than one in twenty of the counted votes, and
    where a model would lose its score. This takes as long as a refit, one at a time; the answer is cached. Needs scope
    `review`. Problems: `not-authenticated`, `scope-missing`, `not-found`, `no-snapshot`; `not-reproducible` where the
    snapshot's votes are no longer known; `cannot-fit` where the votes left have no ranking; `impact-busy`: try again
    later; `fit-too-large`, `fit-lost`.
    """
    return services.impacts.impact(annotator, exact=exact)
