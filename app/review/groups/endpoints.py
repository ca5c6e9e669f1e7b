from typing import Annotated
from uuid import UUID

from fastapi import APIRouter

from app.api.dependencies import ReadView, Transaction, require
from app.api.problems import problem_responses
from app.auth.callers import Caller
from app.review.groups import service as groups
from app.review.groups.schemas import GroupDecision, GroupDecisionRequest, Groups

router = APIRouter(prefix="/reviews/groups", tags=["annotators"])


@router.get("", dependencies=[require("review:read")])
def get_groups(conn: ReadView) -> Groups:
    """List groups: two or more annotators with an open flag who push, or bury, the same model.

    They are those that the test `favour`, or `against`, flags or finds at its bar, whatever flagged them first. Needs
    scope `review:read`. Problems: `not-authenticated`, `scope-missing`.
    """
    return Groups(groups=groups.list_groups(conn))


@router.post("/decisions", status_code=201, responses=problem_responses(404, 409))
def post_group_decision(
    body: GroupDecisionRequest, caller: Annotated[Caller, require("review")], conn: Transaction
) -> GroupDecision:
    """Decide on a group: one decision for each member, for all of them or for none.

    Each is a decision as `POST /annotators/{annotator}/decisions` takes it; all have the same `group_id`. With
    `annotators` the members must still be those. Needs scope `review`. Problems: `not-authenticated`, `scope-missing`,
    `not-found`; `group-changed` where others are in the group, or a member is being decided on; `conflict` where a
    member has nothing to withdraw; `invalid` for an unknown test or action, or a blank reason.
    """
    group_id, taken = groups.decide_group(
        conn, body.test, body.model, body.action, reason=body.reason, decided_by=caller.name, seen=body.annotators
    )
    return GroupDecision.of(group_id, taken)


@router.post("/decisions/{group_id}/undo", status_code=201, responses=problem_responses(404, 409))
def post_group_undo(group_id: UUID, caller: Annotated[Caller, require("review")], conn: Transaction) -> GroupDecision:
    """Take back the decisions that were taken at once, on a group or on chosen annotators, all of them or none.

    A further decision on each member brings back what held before. Needs scope `review`. Problems:
    `not-authenticated`, `scope-missing`, `not-found`; `group-changed` where another decision was taken on a member
    since.
    """
    return GroupDecision.of(group_id, groups.undo_group(conn, group_id, decided_by=caller.name))
