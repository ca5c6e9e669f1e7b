"""Callers of the service: who they are, by their key or token, and what they may do."""

import hmac
from dataclasses import dataclass
from typing import Literal, get_args
from uuid import UUID

Scope = Literal["ingest", "read", "review", "admin"]
SCOPES: tuple[Scope, ...] = get_args(Scope)


@dataclass(frozen=True)
class AnnotatorBinding:
    """The one annotator that a token may vote for. Only a hash of the annotator's raw key is stored."""

    key: bytes
    mac: str

    @classmethod
    def to(cls, annotator: str, secret: str) -> "AnnotatorBinding":
        """Bind to an annotator. The hash says nothing about the annotator without the token's secret."""
        return cls(secret.encode(), hmac.digest(secret.encode(), annotator.encode(), "sha256").hex())

    def allows(self, annotator: str) -> bool:
        """Whether this is the annotator."""
        mac = hmac.digest(self.key, annotator.encode("utf-8", "surrogatepass"), "sha256").hex()
        return hmac.compare_digest(mac, self.mac)


@dataclass(frozen=True)
class Caller:
    """The holder of a key or token, by the key's name and scopes.

    Attributes
    ----------
    key_id : the key's id; None for a person at the command line
    requests_per_minute : the key's own limit; None for the service's
    token_id : the token's id, if a token of the key is shown; tokens may post votes only
    binding : the only annotator that the token may vote for; None for any
    """

    key_id: UUID | None
    name: str
    scopes: frozenset[str]
    requests_per_minute: int | None = None
    token_id: UUID | None = None
    binding: AnnotatorBinding | None = None

    def may(self, scope: Scope) -> bool:
        """Whether the caller has the scope; admin implies every other."""
        return scope in self.scopes or "admin" in self.scopes

    def may_vote_as(self, annotator: str) -> bool:
        """Whether the caller may send votes of this annotator."""
        return self.binding is None or self.binding.allows(annotator)
