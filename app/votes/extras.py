"""What a vote may bring along, however it reaches the service: tags and metadata."""

import json
import math
from collections.abc import Sequence
from typing import Any

from app.errors import FieldError
from app.naming.names import name_error

MAX_TAGS = 50
MAX_METADATA_LENGTH = 16_000
MAX_METADATA_DEPTH = 20


def tag_errors(tags: Sequence[str]) -> list[FieldError]:
    """Return everything that is wrong with a vote's tags."""
    errors = [FieldError("/tags", f"must be at most {MAX_TAGS}")] if len(tags) > MAX_TAGS else []
    return errors + [
        FieldError(f"/tags/{i}", error) for i, tag in enumerate(tags[:MAX_TAGS]) if (error := name_error(tag))
    ]


def metadata_error(metadata: dict[str, Any]) -> str | None:
    """Return what PostgreSQL's jsonb, or who reads it back, could not take; None where there is nothing."""
    waiting: list[tuple[Any, int]] = [(metadata, 1)]
    while waiting:
        value, depth = waiting.pop()
        if depth > MAX_METADATA_DEPTH:
            return f"must not nest deeper than {MAX_METADATA_DEPTH} levels"
        if isinstance(value, dict):
            waiting += [(part, depth + 1) for pair in value.items() for part in pair]
        elif isinstance(value, list):
            waiting += [(part, depth + 1) for part in value]
        elif isinstance(value, float) and not math.isfinite(value):
            return "must not contain NaN or Infinity"
        elif isinstance(value, str) and not _storable_text(value):
            return "must not contain the character U+0000 or half of a surrogate pair"
    length = len(json.dumps(metadata, ensure_ascii=False))
    return f"must have at most {MAX_METADATA_LENGTH} characters as JSON" if length > MAX_METADATA_LENGTH else None


def _storable_text(value: str) -> bool:
    return "\x00" not in value and not any("\ud800" <= c <= "\udfff" for c in value)
