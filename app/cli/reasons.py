from app.errors import BadInputError

_LONGEST = 2000


def check_reason(text: str) -> str:
    """Return what --reason says, without space around it.

    Raises
    ------
    BadInputError
        It is blank or too long.
    """
    reason = text.strip()
    if not 1 <= len(reason) <= _LONGEST:
        raise BadInputError(f"--reason must have 1 to {_LONGEST} characters")
    return reason
