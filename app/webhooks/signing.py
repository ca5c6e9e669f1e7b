"""Signatures as Standard Webhooks defines them, so that receivers can check them with a library of theirs."""

import base64
import hashlib
import hmac
import secrets

_PREFIX = "whsec_"


def new_secret() -> str:
    """Return a new signing secret: `whsec_` and 32 random bytes in base64."""
    return _PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


def sign(secret: str, message_id: str, timestamp: int, payload: str) -> str:
    """Return the `webhook-signature` of a message: v1 and the HMAC-SHA256 of id, time and payload in base64.

    References
    ----------
    Standard Webhooks specification 1.0, "Signature scheme".
    """
    key = base64.b64decode(secret.removeprefix(_PREFIX))
    signed = f"{message_id}.{timestamp}.{payload}".encode()
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
