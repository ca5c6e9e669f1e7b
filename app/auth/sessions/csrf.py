"""Tokens that prove that a form was made for this session (cross-site request forgery).

A token is a random part and its HMAC under the session's secret. It is different on every page, so that a compressed
page says nothing about it, and nothing of it is stored.
"""

import hmac
import secrets

_RANDOM_BYTES = 12


def make_token(session_secret: str, *, about: str = "form") -> str:
    """Return a new token for a form, or for another text that the service gives to the browser and wants back."""
    random = secrets.token_hex(_RANDOM_BYTES)
    return f"{random}.{_mac(session_secret, about, random)}"


def is_token_of(session_secret: str, token: str, *, about: str = "form") -> bool:
    """Whether the token was made for this session, and about this."""
    random, _, mac = token.partition(".")
    return hmac.compare_digest(_mac(session_secret, about, random).encode(), mac.encode("utf-8", "replace"))


def _mac(session_secret: str, about: str, random: str) -> str:
    return hmac.digest(session_secret.encode(), f"{about} {random}".encode("utf-8", "replace"), "sha256").hex()
