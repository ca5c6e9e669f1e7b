"""What a name may look like: of a model, an annotator or a battle, however it reaches the service."""

import unicodedata

MAX_NAME_LENGTH = 500


def name_error(value: str) -> str | None:
    """Return what is wrong with `value` as a name, None where nothing is.

    A name has 1 to 500 characters, not only blanks, none of them a control character, a line or paragraph
    separator or half of a surrogate pair. Blanks around a name are refused, not trimmed: two names that look
    the same must not be two models.
    """
    # Nearly every name is like this, and names are what a batch has most of.
    if (
        value.isascii()
        and value.isprintable()
        and 0 < len(value) <= MAX_NAME_LENGTH
        and " " not in (value[0], value[-1])
    ):
        return None
    if not value or value.isspace():
        return "must not be blank"
    if len(value) > MAX_NAME_LENGTH:
        return f"must have at most {MAX_NAME_LENGTH} characters, has {len(value)}"
    bad = next((c for c in value if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp")), None)
    if bad is not None:
        return f"must not contain the character U+{ord(bad):04X}"
    if value[0].isspace() or value[-1].isspace():
        return "must not start or end with blanks"
    return None
