from typing import Annotated
from uuid import UUID

from fastapi import APIRouter

from app.api.dependencies import ReadView, Transaction, require
from app.api.pagination import Cursor, Id, Page, PageSize, paginate, read_single
from app.api.problems import problem_responses
from app.auth.callers import Caller
from app.invitations import service
from app.invitations.schemas import Invitation, NewInvitation

router = APIRouter(prefix="/invitations", tags=["invitations"])

_Admin = Annotated[Caller, require("admin")]


@router.post("", status_code=201)
def post_invitation(body: NewInvitation, caller: _Admin, conn: Transaction) -> Invitation:
    """Open voting on the answers that lie here: by a link for one annotator, or to everyone.

    Who has a link votes as its annotator, so send it to one person. A door that is opened to everyone takes the place
    of an earlier one. Posting twice makes two links. Needs scope `admin`. Problems: `not-authenticated`,
    `scope-missing`; `invalid`, also for an end that is past, or an annotator for everyone.
    """
    return service.add_invitation(conn, body, created_by=caller.name)


@router.get("", dependencies=[require("admin")])
def list_invitations(conn: ReadView, limit: PageSize = 50, cursor: Cursor = None) -> Page[Invitation]:
    """List invitations with their links and how many votes came by each, the newest first.

    Needs scope `admin`. Problems: `not-authenticated`, `scope-missing`; `invalid` for an unknown cursor.
    """
    items = service.list_invitations(conn, limit=limit + 1, before=read_single(cursor, Id))
    return paginate(items, limit, lambda last: (last.id,))


@router.delete("/{invitation_id}", responses=problem_responses(404))
def delete_invitation(invitation_id: UUID, caller: _Admin, conn: Transaction) -> Invitation:
    """Revoke a link, or close the door.

    No more battles are drawn for it, and its open ones end. Its votes stay. Revoking it again changes
    nothing. Needs scope `admin`. Problems: `not-authenticated`, `scope-missing`, `not-found`.
    """
    return service.revoke_invitation(conn, invitation_id, revoked_by=caller.name)
