"""Entity tags: `ETag`, and the conditions `If-Match` and `If-None-Match` of RFC 9110."""


def names_tag(condition: str, etag: str) -> bool:
    """Whether a condition's header names the tag. Proxies and compression may have marked either as weak."""
    named = {part.strip().removeprefix("W/") for part in condition.split(",")}
    return etag.removeprefix("W/") in named or "*" in named
