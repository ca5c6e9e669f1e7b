def names_tag(header: str, tag: str) -> bool:
    """Whether an `If-Match` or `If-None-Match` header names the tag. Proxies may have marked either as weak."""
    named = {part.strip().removeprefix("W/") for part in header.split(",")}
    return tag.removeprefix("W/") in named or "*" in named
