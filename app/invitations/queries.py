"""Links and open doors: added, revoked, listed with their votes, found for those who vote."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Connection,
    RowMapping,
    Select,
    Uuid,
    and_,
    any_,
    case,
    cast,
    func,
    not_,
    or_,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import insert

from app.database.tables import annotators, battles, invitations, votes
from app.snapshots.vote_sets import is_retracted

_DOOR_LOCK = 20_250_306  # a number of our own among PostgreSQL's advisory locks


def is_open() -> ColumnElement[bool]:
    """Return the condition that an invitation is neither revoked nor expired."""
    c = invitations.c
    return and_(c.revoked_at.is_(None), or_(c.expires_at.is_(None), c.expires_at > func.now()))


def add_invitation(conn: Connection, values: Mapping[str, Any]) -> None:
    """Add an invitation."""
    conn.execute(insert(invitations).values(values))


def lock_door(conn: Connection) -> None:
    """Let no other transaction open the door to everyone until this one ends: the later one then closes this one's."""
    conn.execute(select(func.pg_advisory_xact_lock(_DOOR_LOCK)))


def revoke_invitation(conn: Connection, condition: ColumnElement[bool]) -> list[UUID]:
    """Revoke the invitations of a condition that are not revoked, and end their open battles; return their ids."""
    c, b = invitations.c, battles.c
    statement = update(invitations).where(condition, c.revoked_at.is_(None)).values(revoked_at=func.now())
    revoked = list(conn.execute(statement.returning(c.id)).scalars())
    if revoked:
        waiting = (b.invitation_id.in_(revoked), b.vote_id.is_(None), b.expires_at > func.now())
        conn.execute(update(battles).where(*waiting).values(expires_at=func.now()))
    return revoked


def list_invitations(conn: Connection, *, limit: int, before: UUID | None = None) -> Sequence[RowMapping]:
    """Return invitations as `schemas.Invitation` has them, but for the link, the newest first."""
    conditions = [] if before is None else [invitations.c.id < before]
    statement = _listed().where(and_(True, *conditions)).order_by(invitations.c.id.desc()).limit(limit)
    return conn.execute(statement).mappings().all()


def get_invitation(conn: Connection, invitation_id: UUID) -> RowMapping | None:
    """Return an invitation as `schemas.Invitation` has it, but for the link."""
    return conn.execute(_listed().where(invitations.c.id == invitation_id)).mappings().one_or_none()


def _listed() -> Select[Any]:
    c = invitations.c
    cast = (
        select(func.count())
        .select_from(battles.join(votes, votes.c.id == battles.c.vote_id))
        .where(battles.c.invitation_id == c.id, not_(is_retracted(votes.c.id)))
        .correlate(invitations)
        .scalar_subquery()
    )
    return select(
        c.id,
        case((c.revoked_at.is_not(None), "revoked"), (is_open(), "open"), else_="expired").label("state"),
        c.annotator_id.is_(None).label("everyone"),
        annotators.c.key.label("annotator"),
        annotators.c.public_id.label("annotator_id"),
        *(c[name] for name in ("category", "max_votes", "created_at", "created_by", "expires_at", "revoked_at")),
        cast.label("votes"),
    ).outerjoin_from(invitations, annotators, annotators.c.id == c.annotator_id)


def find_link(conn: Connection, invitation_id: UUID) -> RowMapping | None:
    """Return `annotator_id, category, max_votes, open` of an invitation; None if there is no such invitation."""
    c = invitations.c
    statement = select(c.annotator_id, c.category, c.max_votes, is_open().label("open")).where(c.id == invitation_id)
    return conn.execute(statement).mappings().one_or_none()


def find_open(conn: Connection, ids: Collection[UUID]) -> set[UUID]:
    """Return those of these invitations that are open."""
    wanted = invitations.c.id == any_(cast(list(ids), ARRAY(Uuid)))  # IN is several times as slow in SQLAlchemy
    return set(conn.execute(select(invitations.c.id).where(wanted, is_open())).scalars())


def find_open_door(conn: Connection) -> RowMapping | None:
    """Return `id, category, max_votes` of the door that is open to everyone; None if there is none."""
    c = invitations.c
    statement = select(c.id, c.category, c.max_votes).where(c.annotator_id.is_(None), is_open())
    return conn.execute(statement.order_by(c.id.desc()).limit(1)).mappings().one_or_none()
