"""The two structured fields of a vote, tags and metadata, from the text in which files hold them."""

import json

from app.votes.rules import metadata_error, tag_errors


def parse_tags(text: str) -> list[str]:
    """Return the tags: a JSON list of texts, or texts with semicolons between them.

    Raises
    ------
    ValueError : neither, too many, or a tag that is no name; one line saying what is wrong.
    """
    tags = _decoded(text) if text.lstrip().startswith(("[", "{")) else [tag.strip() for tag in text.split(";")]
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise ValueError("must be a list of texts")
    for fault in tag_errors(tags):
        raise ValueError(fault.detail if fault.pointer == "/tags" else f"a tag {fault.detail}")
    return tags


def parse_metadata(text: str) -> str:
    """Return the metadata, a JSON object, as compact JSON text that PostgreSQL's jsonb takes.

    Raises
    ------
    ValueError : not a JSON object, or one that a vote may not bring along; one line saying why.
    """
    metadata = _decoded(text)
    if not isinstance(metadata, dict):
        raise ValueError("must be a JSON object")  # noqa: TRY004  the text is at fault, not a caller's type
    if fault := metadata_error(metadata):
        raise ValueError(fault)
    return json.dumps(metadata, ensure_ascii=False, separators=(",", ":"))


def _decoded(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("is not JSON") from None
