"""What is said of outcome words that a format does not know, and which word it was."""

import ast
import re

from app.imports.formats.schemas import Schema

_SHOWN_CHARACTERS = 80


def winner_fault(word: str | None, schema: Schema) -> str:
    """Return what is wrong with an outcome word, or with none."""
    words = list(schema.winners)
    if not word:
        return "must not be blank"
    return f"unknown outcome {shown(word)}; known are {', '.join(words)}"


_UNKNOWN = re.compile(r"unknown outcome ('.*'|\".*\"); known are ", re.DOTALL)


def unknown_word(detail: str) -> str | None:
    """Return the outcome word that an error names as unknown; None for other errors, and for words that are cut."""
    found = _UNKNOWN.match(detail)
    word = None if found is None else str(ast.literal_eval(found[1]))
    return None if word is None or len(word) > _SHOWN_CHARACTERS else word


def shown(value: object) -> str:
    """Return the beginning of a value as messages show it."""
    text = str(value)
    return repr(text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…")
