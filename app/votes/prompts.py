"""The key of a prompt: votes keep 8 bytes of what the models were asked, not the text."""

import hashlib
import re

MAX_PROMPT_LENGTH = 16_000
"""Characters of a prompt that a request may give."""
WRITTEN = "prompt:"
_BYTES, _LARGEST = 8, 2**63
_SPACE = " \t\n\r\x0b\x0c"
_WRITTEN = re.compile(rf"{WRITTEN}(-?[0-9]{{1,19}})")


def prompt_key(text: str) -> int | None:
    """Return the key of a prompt, a signed 64-bit number; None for blank text.

    Texts that differ in the space around them alone have the same key, and a key as `key_text` writes it is itself. A
    million prompts share none with a probability above 1 − 3·10⁻⁸.
    """
    text = text.strip(_SPACE)
    if not text:
        return None
    if (written := _WRITTEN.fullmatch(text)) and -_LARGEST <= (key := int(written[1])) < _LARGEST:
        return key
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).digest()
    return int.from_bytes(digest[:_BYTES], signed=True)


def key_text(key: int) -> str:
    """Return a key as exports write it, such as `prompt:-42`."""
    return f"{WRITTEN}{key}"


def key_sql(text: str) -> str:
    """Return the key of a text in the database, for a statement: of prompts whose answers lie here."""
    said = f"convert_to(btrim({text}, E{_SPACE!r}), 'UTF8')"
    return f"('x' || encode(substring(sha256({said}) FROM 1 FOR {_BYTES}), 'hex'))::bit({8 * _BYTES})::bigint"
