"""The token of a sealed battle: a browser holds it and nothing else, and votes with it."""

import base64
import hmac
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar
from uuid import UUID

from sqlalchemy import Connection, select

from app.database.engine import Database
from app.database.tables import service_secrets
from app.errors import BadInputError, FieldError
from app.state import ProcessState

_ID_BYTES = 16
_MAC_BYTES = 17  # 136 bits; with the id 33 bytes, which base64 writes as 44 characters without padding
_SECRET = "battle-tokens"  # noqa: S105  the row's name


class ForgedTokenError(BadInputError):
    """The token was not made by this service."""

    code = "forged-token"
    title = "The battle token is not genuine"


@dataclass(frozen=True)
class BattleTokens:
    """Makes and checks tokens: base64url(id ‖ HMAC-SHA256(secret, id)), the HMAC cut to 17 bytes.

    All replicas share the secret, so each accepts the tokens of the others, and none has to ask the database whether a
    token is genuine.
    """

    secret: bytes = field(repr=False)
    purpose: ClassVar[bytes] = b"battle token"
    prefix: ClassVar[str] = ""

    def issue(self, battle_id: UUID) -> str:
        """Return the token of a battle."""
        mac = self._keyed.copy()
        mac.update(battle_id.bytes)
        return self.prefix + base64.urlsafe_b64encode(battle_id.bytes + mac.digest()[:_MAC_BYTES]).decode()

    @cached_property
    def _keyed(self) -> hmac.HMAC:
        return hmac.new(self.secret, self.purpose, "sha256")

    def verify(self, token: str) -> UUID:
        """Return the battle that the token belongs to. Raises ForgedTokenError."""
        with suppress(ValueError):  # also for what is not base64, and for what is too short
            battle_id = UUID(bytes=base64.urlsafe_b64decode(token.removeprefix(self.prefix))[:_ID_BYTES])
            # Texts are compared, not bytes: base64 may have several texts for the same bytes.
            if hmac.compare_digest(self.issue(battle_id), token):
                return battle_id
        raise ForgedTokenError("this is not a token of this service", (FieldError("/token", "is not genuine"),))


def read_battle_tokens(conn: Connection) -> BattleTokens:
    """Return what makes and checks the tokens of all processes on this database."""
    statement = select(service_secrets.c.secret).where(service_secrets.c.name == _SECRET)
    return BattleTokens(bytes(conn.execute(statement).scalar_one()))


def provide_battle_tokens(state: ProcessState) -> None:
    """Hold what makes and checks the tokens."""
    with state[Database].read() as conn:
        state[BattleTokens] = read_battle_tokens(conn)
