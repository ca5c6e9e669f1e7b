"""What names may look like, on every way into the service: of models, annotators and battles, of tags and criteria."""

import re
import unicodedata
from typing import Annotated

from pydantic import Field

MAX_NAME_LENGTH = 500
_CONTROL = r"\x00-\x1f\x7f-\x9f\u2028\u2029"
_SURROGATES = r"\ud800-\udfff"
_INVISIBLE = r"\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
"""Without the joiners U+200C and U+200D, which some scripts and emoji need."""


def _pattern(refused: str) -> str:
    return rf"[^\s{refused}]([^{refused}]*[^\s{refused}])?"


NAME_PATTERN = f"^{_pattern(_CONTROL)}$"
"""The rule as a schema states it. JSON cannot hold half of a surrogate pair, so the pattern need not refuse them."""
Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME_LENGTH, pattern=NAME_PATTERN)]

Label = Annotated[str, Field(min_length=1, max_length=MAX_NAME_LENGTH, pattern=f"^{_pattern(_CONTROL + _INVISIBLE)}$")]
"""The name of a criterion, a tag, a category or a feature. Each makes a group, so no two may look the same by what
cannot be seen; models that look alike are joined by aliases, and keys of annotators are opaque."""

_UNSEEN = re.compile(f"[{_INVISIBLE}]")
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


def label_error(value: str) -> str | None:
    """Return what is wrong with `value` as a `Label`, or None: it is a name without invisible characters."""
    unseen = _UNSEEN.search(value)
    return name_error(value) or (f"must not contain the invisible character U+{ord(unseen[0]):04X}" if unseen else None)
