from typing import Annotated, Self

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, model_validator

from app.auth.service import Caller
from app.http.dependencies import ProcessServices, ReadView, Transaction, require
from app.http.problems import problem_responses
from app.http.texts import Reason
from app.policy.service import Policy, PolicyVersion, current_policy, set_policy
from app.refits.previews.service import PolicyPreview

router = APIRouter(tags=["policy"])


class PolicySettings(BaseModel):
    """A whole policy."""

    model_config = ConfigDict(extra="forbid")

    settings: Policy

    @model_validator(mode="after")
    def settings_are_complete(self) -> Self:
        """PUT replaces the whole policy: a setting left out must not fall back to a default unseen."""
        missing = sorted(set(Policy.model_fields) - self.settings.model_fields_set)
        if missing:
            raise ValueError(f"a policy is replaced as a whole; missing: {', '.join(missing)}")
        return self


class PolicyChange(PolicySettings):
    """A policy to put in force, and why."""

    reason: Reason


@router.get("/policy", dependencies=[require("read")], responses=problem_responses(401, 403, 503))
def get_policy(conn: ReadView) -> PolicyVersion:
    """Show the policy in force.

    Needs scope `read`. Problems: `not-authenticated`, `scope-missing`.
    """
    return current_policy(conn)


@router.put("/policy", responses=problem_responses(401, 403, 422, 503))
def put_policy(change: PolicyChange, caller: Annotated[Caller, require("admin")], conn: Transaction) -> PolicyVersion:
    """Replace the policy.

    The new version holds from the next refit on; earlier ones stay on record. Needs scope `admin`. Putting the same
    settings twice makes two versions. Problems: `not-authenticated`, `scope-missing`; `invalid` where a setting is
    missing, unknown or out of range, or the reason is blank.
    """
    return set_policy(conn, change.settings, reason=change.reason, created_by=caller.name)


@router.post(
    "/policy/preview", dependencies=[require("admin")], responses=problem_responses(401, 403, 409, 422, 500, 503)
)
def post_preview(body: PolicySettings, services: ProcessServices) -> PolicyPreview:
    """Try a policy out on the votes on record, without putting it in force.

    Says who would be flagged, excluded, pending, back in or cleared of a flag, how the leaderboard would move, and
    whether the refit would wait for an admin, and why. Takes as long as a refit; one at a time. Needs scope `admin`.
    Problems: `not-authenticated`, `scope-missing`; `invalid` where a setting is missing, unknown or out of range;
    `cannot-fit` where the votes have no ranking under it; `preview-busy`; `fit-too-large`, `fit-lost`.
    """
    return services.previews.preview(body.settings)
