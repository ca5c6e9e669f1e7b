"""Who may vote on the answers that lie here: links, each one annotator's, and a door that is open to everyone."""

from typing import Any
from uuid import UUID

from sqlalchemy import Connection

from app.audit import service as audit
from app.database.ids import new_id
from app.database.tables import invitations
from app.errors import BadInputError, NotFoundError
from app.invitations import queries as store
from app.invitations.schemas import Invitation, NewInvitation
from app.invitations.voters import VoterTokens, read_voter_tokens
from app.naming.service import resolve_annotators

PAGE = "/vote"
_LIMITS = ("category", "max_votes", "expires_at")


def add_invitation(conn: Connection, new: NewInvitation, *, created_by: str) -> Invitation:
    """Make a link or open the door; an open door takes the place of an earlier one.

    Raises BadInputError: the door that is open to everyone has an annotator, or the end is not in the future.
    """
    invitation_id = new_id()
    values: dict[str, Any] = new.model_dump(include={*_LIMITS})
    if new.everyone:
        if new.annotator is not None:
            raise BadInputError.at("/annotator", "does not go with a door that is open to everyone")
        store.lock_door(conn)
        store.revoke_invitation(conn, invitations.c.annotator_id.is_(None))
    else:
        key = new.annotator or f"invited-{invitation_id.hex}"
        values["annotator_id"] = resolve_annotators(conn, [key])[key]
    store.add_invitation(conn, {"id": invitation_id, "created_by": created_by, **values})
    added = find_invitation(conn, invitation_id)
    if added.state != "open":
        raise BadInputError.at("/expires_at", "must be in the future")
    # Without the annotator's key: the audit log is never changed.
    detail = {"everyone": new.everyone, "annotator": added.annotator_id, **new.model_dump(include={*_LIMITS})}
    audit.record(conn, actor=created_by, action="invitation.create", subject=str(invitation_id), detail=detail)
    return added


def revoke_invitation(conn: Connection, invitation_id: UUID, *, revoked_by: str) -> Invitation:
    """Draw no more battles for an invitation, and end its open ones. Its votes stay. Once revoked it stays as it is.

    Raises NotFoundError.
    """
    if store.revoke_invitation(conn, invitations.c.id == invitation_id):
        audit.record(conn, actor=revoked_by, action="invitation.revoke", subject=str(invitation_id), detail={})
    return find_invitation(conn, invitation_id)


def find_invitation(conn: Connection, invitation_id: UUID) -> Invitation:
    """Return an invitation. Raises NotFoundError."""
    row = store.get_invitation(conn, invitation_id)
    if row is None:
        raise NotFoundError(f"there is no invitation {invitation_id}")
    return _shown(row, read_voter_tokens(conn))


def list_invitations(conn: Connection, *, limit: int, before: UUID | None = None) -> list[Invitation]:
    """Return invitations, the newest first, those made before one."""
    tokens = read_voter_tokens(conn)
    return [_shown(row, tokens) for row in store.list_invitations(conn, limit=limit, before=before)]


def _shown(row: Any, tokens: VoterTokens) -> Invitation:
    link = PAGE if row["everyone"] else f"{PAGE}#{tokens.issue(row['id'])}"
    return Invitation.model_validate({**row, "link": link})
