from typing import Annotated, Any

from fastapi import APIRouter, Header, Response

from app.api.dependencies import ReadView, Transaction, require
from app.api.kept_answers import names_tag
from app.api.problems import problem_responses
from app.auth.callers import Caller
from app.policy.changes import set_policy
from app.policy.schemas import PolicyChange, PolicyVersion
from app.policy.service import current_policy

router = APIRouter(tags=["policy"])

_ETAG: dict[str, Any] = {"ETag": {"description": "Names the version.", "schema": {"type": "string"}}}
_OK: dict[int | str, dict[str, Any]] = {200: {"headers": _ETAG}}


@router.get("/policy", dependencies=[require("read")], responses=_OK)
def get_policy(conn: ReadView, answer: Response) -> PolicyVersion:
    """Show the policy in force.

    The `ETag` names the version. Needs scope `read`. Problems: `not-authenticated`, `scope-missing`.
    """
    return _tagged(answer, current_policy(conn))


@router.put("/policy", responses=_OK | problem_responses(412))
def put_policy(
    change: PolicyChange,
    caller: Annotated[Caller, require("admin")],
    conn: Transaction,
    answer: Response,
    if_match: Annotated[str | None, Header(description="The `ETag` of the policy that is to be replaced.")] = None,
) -> PolicyVersion:
    """Replace the policy.

    The new version holds from the next refit on. Earlier versions stay on record. Putting the same settings twice
    makes two versions. The body may be what `GET /policy` answered, with other settings and another reason: `version`,
    `created_by` and `created_at` are ignored. With its `ETag` as `If-Match`, a version that someone else has put in
    force meanwhile is not replaced. Needs scope `admin`. Problems: `not-authenticated`, `scope-missing`; `invalid`
    where a setting is missing, unknown or out of range, or the reason is blank; `precondition-failed`, with the
    `version` in force, if `If-Match` names another one.
    """
    made = set_policy(
        conn,
        change.settings,
        reason=change.reason,
        created_by=caller.name,
        may_replace=lambda replaced: if_match is None or names_tag(if_match, _etag(replaced)),
    )
    return _tagged(answer, made)


def _tagged(answer: Response, version: PolicyVersion) -> PolicyVersion:
    answer.headers["ETag"] = _etag(version)
    return version


def _etag(version: PolicyVersion) -> str:
    return f'"{version.version}"'
