from typing import Annotated

from fastapi import APIRouter, Header, Response

from app.auth.callers import Caller
from app.http.dependencies import ReadView, Transaction, require
from app.http.entity_tags import names_tag
from app.http.problems import problem_responses
from app.policy.schemas import PolicyChange, PolicyVersion
from app.policy.service import current_policy, set_policy

router = APIRouter(tags=["policy"])


@router.get("/policy", dependencies=[require("read")], responses=problem_responses(401, 403, 503))
def get_policy(conn: ReadView, response: Response) -> PolicyVersion:
    """Show the policy in force.

    The `ETag` names its version, for the `If-Match` of a change. Needs scope `read`. Problems: `not-authenticated`,
    `scope-missing`.
    """
    policy = current_policy(conn)
    response.headers["ETag"] = _tag(policy.version)
    return policy


@router.put("/policy", responses=problem_responses(401, 403, 412, 422, 503))
def put_policy(
    change: PolicyChange,
    caller: Annotated[Caller, require("admin")],
    conn: Transaction,
    response: Response,
    if_match: Annotated[str | None, Header(description="The `ETag` of the version that is to be replaced.")] = None,
) -> PolicyVersion:
    """Replace the policy.

    The new version holds from the next refit on. Earlier versions stay on record. Putting the same settings twice
    makes two versions. The body may be what `GET /policy` answered, with other settings and a reason of its own. With
    `If-Match` the change is refused when another version is in force meanwhile. Needs scope `admin`. Problems:
    `not-authenticated`, `scope-missing`; `precondition-failed`; `invalid` where a setting is missing, unknown or out of
    range, or the reason is blank.
    """

    def expected(version: int) -> bool:
        return if_match is None or names_tag(if_match, _tag(version))

    policy = set_policy(conn, change.settings, reason=change.reason, created_by=caller.name, expected=expected)
    response.headers["ETag"] = _tag(policy.version)
    return policy


def _tag(version: int) -> str:
    return f'"policy-{version}"'
