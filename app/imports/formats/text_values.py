"""Values that are not text yet: of JSON and of Parquet columns, turned to text without guessing."""

import json
import math
from collections.abc import Callable, Mapping

from app.imports.formats.schemas import Input

MAX_EXACT_FLOAT = 2.0**53
"""Up to here every whole float is the whole number it shows."""


def name_text(value: object) -> str | None:
    """Return a name or outcome word as text; null stays null, a whole number is its digits.

    Raises
    ------
    ValueError : NaN, a fraction, true, false, a list, an object or half of a surrogate pair; says which.
    """
    if value is None:
        return None
    if isinstance(value, str):
        return _encodable(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, float):
        if math.isnan(value):
            raise ValueError("must not be NaN")
        if value.is_integer() and abs(value) <= MAX_EXACT_FLOAT:
            return str(int(value))  # pandas makes floats of whole numbers where one is missing
        raise ValueError(f"must be text, is the number {value!r}")
    kinds = {bool: "true or false", list: "a list", dict: "an object"}
    raise ValueError(f"must be text, is {kinds.get(type(value), type(value).__name__)}")


def moment_text(value: object) -> str | None:
    """Return a moment as text: of a number all its digits, whatever unit the format counts in.

    Raises
    ------
    ValueError : true, false, a list, an object or half of a surrogate pair; says which.
    """
    if isinstance(value, float):
        return repr(value)
    return name_text(value)


def document_text(value: object) -> str | None:
    """Return tags or metadata as text: text as it is, lists and objects as JSON.

    Raises
    ------
    ValueError : a number, true or false, or half of a surrogate pair in a bare text; says which.
    """
    if value is None:
        return None
    if isinstance(value, str):
        return _encodable(value)
    if isinstance(value, list | dict):
        return json.dumps(value, default=str)
    raise ValueError(f"must be text, a list or an object, is {value!r}")


def flag_text(value: object) -> str | None:
    """Return a flag as text: true, false, or what a name would be.

    Raises
    ------
    ValueError : NaN, a fraction, a list or an object; says which.
    """
    return str(value).lower() if isinstance(value, bool) else name_text(value)


def _encodable(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"must not contain the lone surrogate U+{ord(value[error.start]):04X}") from None
    return value


_SPECIAL: Mapping[Input, Callable[[object], str | None]] = {
    "voted_at": moment_text,
    "tags": document_text,
    "metadata": document_text,
    "siblings": document_text,
    "won_a": flag_text,
    "won_b": flag_text,
    "tied": flag_text,
    "equal": flag_text,
}


def text_of(name: Input) -> Callable[[object], str | None]:
    """Return the function that turns such a value to text."""
    return _SPECIAL.get(name, name_text)
