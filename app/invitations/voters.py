"""Those who vote on the answers that lie here, by the token of a link or of a visitor.

A token is `sav_` and what `BattleTokens` makes of an id: the id of an invitation, or one that a visitor got. Nothing is
stored of a visitor before the first battle. So a token says who votes, and the invitations say whether they may.
"""

from collections.abc import MutableMapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar
from uuid import UUID

from sqlalchemy import Connection

from app.auth.battle_tokens import BattleTokens, ForgedTokenError, read_battle_tokens
from app.auth.callers import KnownHolders
from app.database.engine import Database
from app.errors import NotAuthenticatedError
from app.guard.limits import RateLimits
from app.invitations import queries as store
from app.state import ProcessState, state_of

_PREFIX = "sav_"


class NotInvitedError(NotAuthenticatedError):
    """The link is revoked or has expired, or the door is not open to everyone."""

    code = "not-invited"
    title = "Voting is not open to this link"


@dataclass(frozen=True)
class Voter:
    """A person who votes here.

    Attributes
    ----------
    id : the link's invitation, or the visitor's own id
    annotator : the number of the link's annotator, or the raw key of the visitor
    invitation_id : the link, or the door that is open to everyone
    category : of the prompts that are shown; None for all
    max_votes : None for no limit
    """

    id: UUID
    annotator: int | str
    invitation_id: UUID
    category: str | None
    max_votes: int | None

    @property
    def invited(self) -> bool:
        """Whether the person has a link."""
        return self.id == self.invitation_id


class VoterTokens(BattleTokens):
    """Makes and checks the tokens of those who vote here."""

    purpose: ClassVar[bytes] = b"voter token"
    prefix: ClassVar[str] = _PREFIX

    def verify(self, token: str) -> UUID:
        """Return whose token this is. Raises NotAuthenticatedError."""
        try:
            return super().verify(token)
        except ForgedTokenError:
            raise NotAuthenticatedError("this is not a link of this service") from None


class KnownVoters(KnownHolders[Voter]):
    """Those who voted in the last few seconds."""


def is_voter_token(secret: str) -> bool:
    """Whether this has the form of a voter's token."""
    return secret.startswith(_PREFIX)


def read_voter_tokens(conn: Connection) -> VoterTokens:
    """Return what makes and checks the tokens of all processes on this database."""
    return VoterTokens(read_battle_tokens(conn).secret)


def find_voter(conn: Connection, voter_id: UUID) -> Voter:
    """Return who votes with the token of this id. Raises NotInvitedError."""
    link = store.find_link(conn, voter_id)
    if link is not None:
        if not link["open"] or link["annotator_id"] is None:
            raise NotInvitedError("this link has been revoked or has expired")
        return Voter(voter_id, link["annotator_id"], voter_id, link["category"], link["max_votes"])
    door = store.find_open_door(conn)
    if door is None:
        raise NotInvitedError("voting is by invitation at the moment")
    return Voter(voter_id, f"visitor-{voter_id.hex}", door["id"], door["category"], door["max_votes"])


def authenticate_voter(database: Database, tokens: VoterTokens, secret: str) -> Voter:
    """Return who votes with this token. Raises NotAuthenticatedError or NotInvitedError."""
    voter_id = tokens.verify(secret)
    with database.read() as conn:
        return find_voter(conn, voter_id)


async def admit_voter(scope: MutableMapping[str, Any], secret: str) -> Voter:
    """Return who votes with the token of a request, and count the request towards the voter's limit.

    Raises NotAuthenticatedError, NotInvitedError or RateLimitedError.
    """
    state = state_of(scope)
    limits = state[RateLimits]
    try:
        voter = await state[KnownVoters].identify(secret)
    except NotAuthenticatedError:
        limits.count_anonymous(scope)  # guessing links must be slow
        raise
    limits.count_voter(scope, voter.id, invited=voter.invited)
    return voter


def provide_voters(state: ProcessState) -> None:
    """Hold what makes and checks voters' tokens, and those who voted lately."""
    state[VoterTokens] = tokens = VoterTokens(state[BattleTokens].secret)
    state[KnownVoters] = KnownVoters(partial(authenticate_voter, state[Database], tokens))
