"""Files with columns of other names than any known format has: `--columns winner=Label,annotator=User`."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from app.errors import BadInputError
from app.imports.formats.schemas import derive
from app.imports.formats.schemas.schema import BOTH_BAD, OUTCOME_WORDS, TIE, A, B, Input, Schema

FIELDS: Mapping[str, Input] = {
    "annotator": "annotator", "model_a": "model_a", "model_b": "model_b", "winner": "winner", "battle_id": "battle_id",
    "timestamp": "voted_at", "tags": "tags", "metadata": "metadata", "propensity": "propensity", "vote_id": "vote_id",
}  # fmt: skip
"""What may be named, and our name for it."""

WORDS: Mapping[str, int] = {
    **OUTCOME_WORDS,
    derive.FIRST: A, derive.SECOND: B,
    **dict.fromkeys(("a", "left", "first", "a_better", "a_win"), A),
    **dict.fromkeys(("b", "right", "second", "b_better", "b_win"), B),
    **dict.fromkeys(("draw", "equal", "same"), TIE),
    "neither": BOTH_BAD,
}  # fmt: skip
"""Outcome words in any case. The winner's name does as well."""

_PAIR = re.compile(rf"\s*({'|'.join(FIELDS)})\s*=(.*)", re.DOTALL)
_BETWEEN = re.compile(rf",(?=\s*(?:{'|'.join(FIELDS)})\s*=)")


def read_columns(text: str) -> dict[Input, str]:
    """Return the columns that `winner=Label,annotator=User` names; a column's name may have commas in it.

    Raises
    ------
    BadInputError
    """
    columns: dict[Input, str] = {}
    for part in _BETWEEN.split(text):
        pair = _PAIR.fullmatch(part)
        if pair is None or not pair[2].strip() or "\x00" in part:
            raise BadInputError(
                f"columns must be FIELD=COLUMN,… with the fields {', '.join(FIELDS)}, is {text[:200]!r}"
            )
        if FIELDS[pair[1]] in columns:
            raise BadInputError(f"columns names {pair[1]} twice")
        columns[FIELDS[pair[1]]] = pair[2].strip()
    return columns


def with_columns(schema: Schema, columns: Mapping[Input, str]) -> Schema:
    """Return a format whose fields are in these columns; those that are not named keep theirs."""
    required: dict[Input, str] = {name: columns.get(name, column) for name, column in schema.required.items()}
    others: dict[Input, str] = {
        name: column for name, column in columns.items() if name not in required and name != "annotator"
    }
    optional = {name: column for name, column in schema.optional.items() if name not in others}
    renamed = replace(schema, required={**required, **others}, optional=optional, kind=None)
    if "winner" in columns and schema.winners is OUTCOME_WORDS:
        renamed = replace(renamed, winners=WORDS, derive=derive.from_name_or_word)
    return renamed


def likely_columns(missing: Iterable[str], found: Iterable[str], rename: Callable[[str], str | None]) -> dict[str, str]:
    """Return the columns that are probably meant by missing ones: the same name but for case, spaces and signs."""
    plain = {_plain(column): column for column in found}
    pairs = {column: plain.get(_plain(column)) for column in missing}
    return {name: other for column, other in pairs.items() if other and (name := rename(column))}


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
