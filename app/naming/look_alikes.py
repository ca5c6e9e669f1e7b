"""Names that look the same: they differ in case, dashes, blanks, invisible characters, or in how accents are made."""

import shlex
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_MINUS = "\N{MINUS SIGN}"


def appearance(name: str) -> str:
    """Return what a reader sees of a name: two names with the same appearance are probably meant to be one."""
    if not name.isascii():
        name = "".join(_seen(c) for c in unicodedata.normalize("NFKC", name))
    return unicodedata.normalize("NFKC", " ".join(name.casefold().split()))


@dataclass(frozen=True)
class LookAlikes:
    """Names that look the same.

    Attributes
    ----------
    kept : the name that the others probably mean
    others : in order
    """

    kept: str
    others: list[str]

    def __str__(self) -> str:
        """Name them, so that a reader sees how they differ."""
        return ", ".join(quoted(name) for name in (self.kept, *self.others))


def find_look_alikes(votes: Mapping[str, float]) -> list[LookAlikes]:
    """Return the groups of several names that look the same.

    `votes` : name → what speaks for it; of several names the one with the most is kept.
    """
    groups = defaultdict[str, list[str]](list)
    for name in sorted(votes):
        groups[appearance(name)].append(name)
    found = []
    for _, names in sorted(groups.items()):
        if len(names) > 1:
            kept = max(names, key=lambda name: votes[name])
            found.append(LookAlikes(kept, [name for name in names if name != kept]))
    return found


def merge_commands(found: Iterable[LookAlikes]) -> str:
    """Return the commands that join models of the service which look the same."""
    return "; ".join(
        f"stable-arena models merge {quoted(name)} --into {quoted(one.kept)}" for one in found for name in one.others
    )


def quoted(word: str) -> str:
    r"""Return a word as a shell reads it, so that a reader sees what is unusual in it: $'gpt\u20114'."""
    usual = all(c.isprintable() and not _is_hidden(c) for c in word) and unicodedata.is_normalized("NFKC", word)
    if usual:
        return shlex.quote(word)
    return "$'" + "".join(_escaped(c) for c in word) + "'"


def _seen(character: str) -> str:
    kind = unicodedata.category(character)
    return "-" if kind == "Pd" or character == _MINUS else "" if kind == "Cf" else character


def _is_hidden(character: str) -> bool:
    return not character.isascii() and _seen(character) != character


def _escaped(character: str) -> str:
    if character in "\\'":
        return f"\\{character}"
    if character.isascii() and character.isprintable():
        return character
    code = ord(character)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004  the last of four digits
