"""Keyed pseudonyms: what stands for an annotator's raw key in the database and in everything read from it."""

import base64
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field

MADE = r"^p[0-9]+_[a-z2-7]{52}$"
"""What a pseudonym looks like; as a regular expression of PostgreSQL's."""
STORED = r"^(p[0-9]+_[a-z2-7]{52}|erased_[a-z2-7]{52})$"
"""What a pseudonym, or the key of somebody erased, looks like; as a regular expression of PostgreSQL's."""


@dataclass(frozen=True)
class Pseudonyms:
    """HMAC-SHA256 of raw keys under a secret that the database never sees.

    Attributes
    ----------
    version : names the secret in force; it stands in every pseudonym
    secrets : version → secret, of at least 32 bytes; the earlier ones recognise whom they once named
    """

    version: int
    secrets: Mapping[int, bytes] = field(repr=False)

    def of(self, raw: str) -> tuple[str, ...]:
        """Return the pseudonyms of a raw key: under the secret in force, then under earlier ones, the latest first."""
        earlier = sorted(self.secrets.keys() - {self.version}, reverse=True)
        return tuple(self._under(version, raw) for version in (self.version, *earlier))

    def _under(self, version: int, raw: str) -> str:
        return f"p{version}_{base32(hmac.digest(self.secrets[version], raw.encode(), 'sha256'))}"


def base32(content: bytes) -> str:
    """Return bytes as lower-case letters and digits, safe in paths and files."""
    return base64.b32encode(content).decode().rstrip("=").lower()
