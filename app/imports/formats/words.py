"""What is said of outcome words that a format does not know, and which word it was."""

import ast
import re

_SHOWN_CHARACTERS = 80

SAY_MORE: tuple[str, ...] = ("both_good", "both_equal", "A>>B", "B<<A", "B>>A", "A<<B")
"""Words that say more than their outcome code; they are kept as `raw_winner` in the vote's metadata."""


def winner_fault(word: str | None) -> str:
    """Return what is wrong with an outcome word, or with none."""
    return f"unknown outcome {shown(word)}" if word else "must not be blank"


_UNKNOWN = re.compile(r"unknown outcome ('.*?'|\".*?\")(?:; known are .*)?", re.DOTALL)
"""The end is that of an earlier version, whose errors are on record."""


def unknown_word(detail: str) -> str | None:
    """Return the outcome word that an error names as unknown; None for other errors, and for words that are cut."""
    found = _UNKNOWN.fullmatch(detail)
    word = None if found is None else str(ast.literal_eval(found[1]))
    return None if word is None or len(word) > _SHOWN_CHARACTERS else word


def shown(value: object) -> str:
    """Return the beginning of a value as messages show it."""
    text = str(value)
    return repr(text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…")
