"""What a name of a model, an annotator or a battle may look like, on every way into the service."""

import re
import unicodedata
from typing import Annotated

from pydantic import Field

MAX_NAME_LENGTH = 500
_CONTROL = r"\x00-\x1f\x7f-\x9f\u2028\u2029"
_SURROGATES = r"\ud800-\udfff"


def _pattern(refused: str) -> str:
    return rf"[^\s{refused}]([^{refused}]*[^\s{refused}])?"


NAME_PATTERN = f"^{_pattern(_CONTROL)}$"
"""The rule as a schema states it. JSON cannot hold half of a surrogate pair, so the pattern need not refuse them."""
Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME_LENGTH, pattern=NAME_PATTERN)]

_NAME = re.compile(_pattern(_CONTROL + _SURROGATES))


def name_error(value: str) -> str | None:
    """Return what is wrong with `value` as a name, or None.

    A name has 1 to 500 characters. It contains no control character, no line or paragraph separator and no half of a
    surrogate pair. It does not start or end with a blank: `"gpt"` and `"gpt "` look the same, but would be two models.
    """
    if len(value) <= MAX_NAME_LENGTH and _NAME.fullmatch(value):
        return None
    if not value or value.isspace():
        return "must not be blank"
    if len(value) > MAX_NAME_LENGTH:
        return f"must have at most {MAX_NAME_LENGTH} characters, has {len(value)}"
    bad = next((c for c in value if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp")), None)
    return "must not start or end with blanks" if bad is None else f"must not contain the character U+{ord(bad):04X}"
