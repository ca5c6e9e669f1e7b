"""Why a vote file is refused as a whole."""

from pathlib import Path
from typing import Self

from app.errors import BadInputError


class UnreadableFileError(BadInputError):
    """The file is damaged, or is not what its name says."""

    code = "unreadable-file"
    title = "The file cannot be read"

    @classmethod
    def at_line(cls, path: Path, line: int, reason: str) -> Self:
        """Return the error with its line, which is also among the extensions."""
        return cls(f"{path}, line {line}: {reason}", extensions={"line": line})


class FileTooLargeError(BadInputError):
    """The file, or something in it, exceeds a limit; `limit` among the extensions is the most there may be."""

    code = "file-too-large"
    title = "The file is too large"


class NoVotesError(BadInputError):
    """The file has no vote that can be used."""

    code = "no-votes"
    title = "The file has no votes"
