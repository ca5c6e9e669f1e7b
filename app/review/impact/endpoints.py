from typing import Annotated

from fastapi import APIRouter, Query

from app.http.dependencies import ProcessServices, require
from app.http.problems import problem_responses
from app.review.impact.service import Impact

router = APIRouter(tags=["annotators"], dependencies=[require("review")])


# A plain function, so that it waits for the fit in a thread; it opens its transactions itself, none during the fit.
@router.get("/annotators/{annotator:path}/impact", responses=problem_responses(401, 403, 404, 409, 422, 500, 503))
def get_impact(
    annotator: str,
    services: ProcessServices,
    exact: Annotated[bool, Query(description="Refit without the annotator, instead of foreseeing it.")] = False,
) -> Impact:
    """Say how the newest board would move without an annotator or, if the annotator does not count, with them.

    By influence function: one Newton step from the fit, everybody else staying in or out as they are. Where that is no
    small change (more than one in twenty of the votes that count; somebody let in; a model that would lose its score)
    and with `exact`, by a true refit. Takes as long as a refit, one at a time; asked again about the
    same snapshot the answer is there at once. Needs scope `review`. Problems: `not-authenticated`, `scope-missing`,
    `not-found`, `no-snapshot`; `not-reproducible` where the snapshot's votes cannot be told any more; `cannot-fit`
    where the votes left have no ranking; `impact-busy`, send it again later; `fit-too-large`, `fit-lost`.
    """
    return services.impacts.impact(annotator, exact=exact)
