"""The two structured fields of a vote, tags and metadata, from the text in which files hold them."""

import json

from app.arena.names import name_fault


def parse_tags(text: str) -> list[str]:
    """Return the tags: a JSON list of texts, or texts with semicolons between them.

    Raises
    ------
    ValueError : neither, or a tag that is no name; one line saying what is wrong.
    """
    tags = _decoded(text) if text.lstrip().startswith(("[", "{")) else [tag.strip() for tag in text.split(";")]
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise ValueError("must be a list of texts")
    for tag in tags:
        if fault := name_fault(tag):
            raise ValueError(f"a tag {fault}")
    return tags


def parse_metadata(text: str) -> str:
    """Return the metadata, a JSON object, as compact JSON text that PostgreSQL's jsonb takes.

    Raises
    ------
    ValueError : not a JSON object, or NaN, NUL or half of a surrogate pair in it; one line saying which.
    """
    metadata = _decoded(text)
    if not isinstance(metadata, dict):
        raise ValueError("must be a JSON object")  # noqa: TRY004  the text is at fault, not a caller's type
    try:
        compact = json.dumps(metadata, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        compact.encode()
    except UnicodeEncodeError:
        raise ValueError("must not contain lone surrogates") from None
    except ValueError:
        raise ValueError("must not contain NaN or infinite numbers") from None
    if "\\u0000" in compact.replace("\\\\", ""):  # an escaped backslash before u0000 is text, not NUL
        raise ValueError("must not contain the character U+0000")
    return compact


def _decoded(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("is not JSON") from None
