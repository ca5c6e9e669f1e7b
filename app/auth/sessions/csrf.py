"""Tokens that prove that a form was made for this session (cross-site request forgery).

A token is a random part and its HMAC under the session's secret. It is different on every page, so that a compressed
page says nothing about it, and nothing of it is stored.
"""

import hmac
import secrets

_RANDOM_BYTES = 12


def make_token(session_secret: str) -> str:
    """Return a new token for a form."""
    random = secrets.token_hex(_RANDOM_BYTES)
    return f"{random}.{_mac(session_secret, random)}"


def is_token_of(session_secret: str, token: str) -> bool:
    """Whether the token was made for this session."""
    random, _, mac = token.partition(".")
    return hmac.compare_digest(_mac(session_secret, random).encode(), mac.encode("utf-8", "replace"))


def _mac(session_secret: str, random: str) -> str:
    return hmac.digest(session_secret.encode(), f"form {random}".encode("utf-8", "replace"), "sha256").hex()
