"""The form of keys and tokens: `sa_PREFIX_SECRET` and `sat_PREFIX_SECRET`."""

import binascii
import hashlib
import hmac
import re
import secrets
import string
from collections.abc import Callable
from typing import Literal

from sqlalchemy import RowMapping

from app.errors import NotAuthenticatedError

Kind = Literal["sa", "sat"]

_ALPHABET = string.digits + string.ascii_letters
_PREFIX_LENGTH = 8
_RANDOM_LENGTH = 22  # 131 bits at log2(62) each
_CHECKSUM_LENGTH = 6  # 62^6 holds every CRC-32
_PARTS = [f"([0-9A-Za-z]{{{length}}})" for length in (_PREFIX_LENGTH, _RANDOM_LENGTH, _CHECKSUM_LENGTH)]
_FORM = re.compile("sat?_{}_{}{}".format(*_PARTS))


def make_secret(kind: Kind) -> tuple[str, str]:
    """Return a new prefix, which names the secret in lists and logs, and the secret it is part of.

    The secret is 131 random bits and a checksum, which shows a mistyped secret without asking the database.
    """
    prefix, random = _random(_PREFIX_LENGTH), _random(_RANDOM_LENGTH)
    return prefix, f"{kind}_{prefix}_{random}{_checksum(prefix + random)}"


def digest(secret: str) -> bytes:
    """Return the hash of a secret that is stored. 131 random bits need no slow hash."""
    return hashlib.sha256(secret.encode()).digest()


def check_secret(secret: str, find: Callable[[str], RowMapping | None]) -> RowMapping:
    """Return the row that `find` returns for the secret's prefix, if its `secret_hash` is that of the secret.

    Raises NotAuthenticatedError.
    """
    form = _FORM.fullmatch(secret)
    if form is None:
        raise NotAuthenticatedError("this is not an API key: keys look like sa_PREFIX_SECRET")
    prefix, random, checksum = form.groups()
    if checksum != _checksum(prefix + random):
        raise NotAuthenticatedError("the API key is mistyped or cut short")
    row = find(prefix)
    # Compared even if there is no such key, so that both answers take equally long.
    expected = row["secret_hash"] if row is not None else b""
    if not hmac.compare_digest(digest(secret), bytes(expected)) or row is None:
        raise NotAuthenticatedError("the API key is unknown, expired or revoked")
    return row


def _random(length: int) -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(length))


def _checksum(body: str) -> str:
    value, digits = binascii.crc32(body.encode()), ""
    for _ in range(_CHECKSUM_LENGTH):
        value, digit = divmod(value, len(_ALPHABET))
        digits = _ALPHABET[digit] + digits
    return digits
