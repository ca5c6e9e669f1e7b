"""The rows of a file that are read: `--where status=approved`."""

from collections.abc import Iterable
from dataclasses import dataclass

from app.errors import BadInputError


@dataclass(frozen=True)
class Condition:
    """A column that must have one of these texts, or none of those."""

    column: str
    texts: frozenset[str] = frozenset()
    without: frozenset[str] = frozenset()


def read_conditions(texts: Iterable[str]) -> list[Condition]:
    """Return the conditions that `status=approved` and `lang!=en` name; all of them must hold.

    Of several values of a column one is enough. Raises BadInputError.
    """
    found = dict[str, Condition]()
    for text in texts:
        column, sign, value = text.partition("=")
        unlike = column.endswith("!")
        column, value = column.removesuffix("!").strip(), value.strip().lower()
        if not sign or not column or "\x00" in text:
            raise BadInputError(f"where must be COLUMN=VALUE or COLUMN!=VALUE, is {text[:200]!r}")
        known = found.get(column, Condition(column))
        with_it, without = ((), (value,)) if unlike else ((value,), ())
        found[column] = Condition(column, known.texts.union(with_it), known.without.union(without))
    return list(found.values())
