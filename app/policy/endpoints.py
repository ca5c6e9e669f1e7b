from typing import Annotated

from fastapi import APIRouter

from app.auth.callers import Caller
from app.http.dependencies import ReadView, Transaction, require
from app.http.problems import problem_responses
from app.policy.schemas import PolicyChange, PolicyVersion
from app.policy.service import current_policy, set_policy

router = APIRouter(tags=["policy"])


@router.get("/policy", dependencies=[require("read")], responses=problem_responses(401, 403, 503))
def get_policy(conn: ReadView) -> PolicyVersion:
    """Show the policy in force.

    Needs scope `read`. Problems: `not-authenticated`, `scope-missing`.
    """
    return current_policy(conn)


@router.put("/policy", responses=problem_responses(401, 403, 422, 503))
def put_policy(change: PolicyChange, caller: Annotated[Caller, require("admin")], conn: Transaction) -> PolicyVersion:
    """Replace the policy.

    The new version holds from the next refit on. Earlier versions stay on record. Putting the same settings twice
    makes two versions. Needs scope `admin`. Problems: `not-authenticated`, `scope-missing`; `invalid` where a setting
    is missing, unknown or out of range, or the reason is blank.
    """
    return set_policy(conn, change.settings, reason=change.reason, created_by=caller.name)
