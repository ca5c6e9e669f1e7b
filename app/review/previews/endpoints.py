from fastapi import APIRouter

from app.http.dependencies import ProcessServices, require
from app.http.problems import problem_responses
from app.policy.schemas import PolicySettings
from app.review.previews.schemas import PolicyPreview

router = APIRouter(tags=["policy"])


# A plain function: FastAPI runs it in a thread, where it waits for the fit.
@router.post(
    "/policy/preview", dependencies=[require("admin")], responses=problem_responses(401, 403, 409, 422, 500, 503)
)
def post_preview(body: PolicySettings, services: ProcessServices) -> PolicyPreview:
    """Try a policy out on the votes on record, without putting it in force.

    Returns the annotators who would be flagged, excluded, pending, back in or cleared of a flag, how the leaderboard
    would move, and whether the refit would wait for an admin, with the reason. Takes as long as a refit. One preview
    runs at a time. Needs scope `admin`. Problems: `not-authenticated`, `scope-missing`; `invalid` where a setting is
    missing, unknown or out of range; `cannot-fit` where the votes have no ranking under it; `preview-busy`;
    `fit-too-large`, `fit-lost`.
    """
    return services.previews.preview(body.settings)
