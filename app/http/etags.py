def tag_matches(if_none_match: str | None, tag: str) -> bool:
    """Whether an `If-None-Match` header names the entity tag: compared weakly, since proxies may have marked it so."""
    if if_none_match is None:
        return False
    named = {part.strip().removeprefix("W/") for part in if_none_match.split(",")}
    return tag.removeprefix("W/") in named or "*" in named
