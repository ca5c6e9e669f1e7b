"""Texts that people write about annotators, some kept for ever: where keys are secret they must not give them away."""

import re
from collections.abc import Iterable, Iterator

from sqlalchemy import Connection

from app.errors import BadInputError, FieldError
from app.naming.service import naming_of

_LONG = 8
"""Words of letters alone that are shorter may be anybody's: a key that is one of them is not looked for."""

_MOST_WORDS = 4
_PUNCTUATION = ".,;:!?()[]{}<>\"'`"
_POSSESSIVES = ("'s", "’s")


def require_nameless(
    conn: Connection,
    text: str,
    keys: Iterable[str],
    *,
    pointer: str = "/reason",
    because: str = "it is kept for ever",
    secret: bool = False,
) -> None:
    """Check that a text names none of these annotators, where their keys are kept as pseudonyms.

    Parameters
    ----------
    keys : theirs as they are on record, and raw ones that are known
    pointer : where in the request the text is
    because : why it must not
    secret : they are to be forgotten, however keys are kept

    Raises
    ------
    BadInputError
        A key is in the text, or a word or a few whose pseudonym is on record for one of them.
    """
    if not secret and naming_of(conn).pseudonyms is None:
        return  # whoever may read the text may read the keys
    named = set(keys)
    if any(_holds(text, key) for key in named) or not named.isdisjoint(_possible_keys(conn, text)):
        error = FieldError(pointer, f"must not name the annotator: {because}")
        raise BadInputError(f"{error.pointer} {error.detail}", (error,))


def _holds(text: str, key: str) -> bool:
    """Whether a key is in a text, not as a part of another word."""
    return not _ordinary(key) and re.search(rf"(?<!\w){re.escape(key)}(?!\w)", text, re.IGNORECASE) is not None


def _ordinary(key: str) -> bool:
    return len(key) < _LONG and key.isalpha()


def _possible_keys(conn: Connection, text: str) -> Iterator[str]:
    """Yield the pseudonyms of a text's words, and of a few of them together, as if they were raw keys."""
    naming = naming_of(conn)
    if naming.pseudonyms is None:
        return
    words = text.split()
    parts = {" ".join(words[i : i + n]) for n in range(1, _MOST_WORDS + 1) for i in range(len(words))}
    for part in parts:
        bare = part.strip(_PUNCTUATION)
        for key in {part, bare, *(bare.removesuffix(ending) for ending in _POSSESSIVES)} - {""}:
            if not _ordinary(key):
                yield from naming.stored_keys(key)
