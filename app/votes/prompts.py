"""The key of a prompt: votes keep 8 bytes of what the models were asked, not the text."""

import hashlib
import re

MAX_PROMPT_LENGTH = 100_000
"""Characters of a prompt that a request may give."""
SIZE = 8
_NAMED = "blake2b:"
_KEY = re.compile(rf"{_NAMED}([0-9a-f]{{{2 * SIZE}}})")


def prompt_key(text: str) -> int | None:
    """Return the key of a prompt, a signed 64-bit number; None for blank text.

    Texts that differ in the space around them alone have the same key, and so has a key as `key_text` writes it. A
    million prompts share none with a probability above 1 − 3·10⁻⁸.
    """
    text = text.strip()
    if not text:
        return None
    written = _KEY.fullmatch(text)
    digest = bytes.fromhex(written[1]) if written else hashlib.blake2b(text.encode(), digest_size=SIZE).digest()
    return int.from_bytes(digest, signed=True)


def key_text(key: int) -> str:
    """Return a key as exports write it, such as `blake2b:61a9…`."""
    return f"{_NAMED}{key.to_bytes(SIZE, signed=True).hex()}"
