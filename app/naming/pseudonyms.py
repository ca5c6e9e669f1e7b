"""Keyed pseudonyms, which the database stores in place of annotators' raw keys."""

import base64
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field

MADE = r"^p[0-9]+_[a-z2-7]{52}$"
"""The form of a pseudonym, as a regular expression of PostgreSQL."""
STORED = r"^(p[0-9]+_[a-z2-7]{52}|erased_[a-z2-7]{52})$"
"""The form of a pseudonym or of an erased annotator's key, as a regular expression of PostgreSQL."""


@dataclass(frozen=True)
class Pseudonyms:
    """HMAC-SHA256 of raw keys under a secret that the database does not have.

    Attributes
    ----------
    version : that of the current secret; part of every pseudonym
    secrets : version → secret of at least 32 bytes; pseudonyms made with earlier secrets are recognised
    """

    version: int
    secrets: Mapping[int, bytes] = field(repr=False)

    def of(self, raw: str) -> tuple[str, ...]:
        """Return the pseudonyms of a raw key: under the current secret, then under earlier ones, the latest first."""
        earlier = sorted(self.secrets.keys() - {self.version}, reverse=True)
        return tuple(self._under(version, raw) for version in (self.version, *earlier))

    def _under(self, version: int, raw: str) -> str:
        return f"p{version}_{base32(hmac.digest(self.secrets[version], raw.encode(), 'sha256'))}"


def base32(content: bytes) -> str:
    """Return bytes as lower-case letters and digits, safe in paths and files."""
    return base64.b32encode(content).decode().rstrip("=").lower()
