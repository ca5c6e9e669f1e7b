"""Which columns a vote file may have and what they mean: one entry of `SCHEMAS` per known format."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from app.errors import BadInputError

Field = Literal["annotator", "model_a", "model_b", "winner", "battle_id", "voted_at", "tags", "metadata"]

POOLED_ANNOTATOR = "pooled"

OUTCOME_WORDS: Mapping[str, int] = {
    "model_a": 0,
    "model_b": 1,
    "tie": 2,
    "tie (bothbad)": 3,
    "tie (both bad)": 3,
    "bothbad": 3,
    "both_bad": 3,
    "both bad": 3,
}
"""Outcome codes as stored with a vote: 0 model_a won, 1 model_b won, 2 tie, 3 tie (bothbad)."""


@dataclass(frozen=True)
class Schema:
    """One format of vote files.

    Attributes
    ----------
    name : how the format is asked for by name.
    required : our field → the file's column; all of them must be there for the format to match.
    optional : our field → the file's column, where it is there.
    clock : how `voted_at` is written: ISO 8601 (without an offset: UTC) or seconds since 1970.
    winners : the file's outcome words → outcome codes.
    """

    name: str
    required: Mapping[Field, str]
    optional: Mapping[Field, str] = field(default_factory=dict)
    clock: Literal["iso", "seconds"] = "iso"
    winners: Mapping[str, int] = field(default_factory=lambda: OUTCOME_WORDS)

    def columns(self, *, pooled: bool) -> dict[Field, str]:
        """Return our field → the file's column for every field that is read; pooled votes need no annotator."""
        columns: dict[Field, str] = {**self.required, **self.optional}
        if pooled:
            del columns["annotator"]
        return columns

    def missing(self, found: Collection[str], *, pooled: bool) -> list[str]:
        """Return the required columns that are not among `found`."""
        return [
            column
            for name, column in self.required.items()
            if column not in found and not (pooled and name == "annotator")
        ]


SCHEMAS: tuple[Schema, ...] = (
    Schema(
        name="votes",
        required={"annotator": "annotator", "model_a": "model_a", "model_b": "model_b", "winner": "winner"},
        optional={"battle_id": "battle_id", "voted_at": "timestamp", "tags": "tags", "metadata": "metadata"},
    ),
    Schema(
        name="lmarena-33k",
        required={
            "annotator": "judge",
            "model_a": "model_a",
            "model_b": "model_b",
            "winner": "winner",
            "battle_id": "question_id",
            "voted_at": "tstamp",
        },
        clock="seconds",
    ),
)
"""The formats, in the order in which they are tried. The first one doubles as the one errors speak of."""


def choose_schema(columns: Sequence[str], *, name: str | None = None, pooled: bool = False) -> Schema:
    """Return the format that a file with these columns has.

    Raises
    ------
    BadInputError
        `name` is no format; required columns are missing (it names them); only the annotator is missing (it
        says that pooling is a choice to be made).
    """
    if name is not None:
        named = [schema for schema in SCHEMAS if schema.name == name]
        if not named:
            known = ", ".join(schema.name for schema in SCHEMAS)
            raise BadInputError(f"there is no vote file format {name!r}; known are {known}")
        candidates: Sequence[Schema] = named
    else:
        candidates = SCHEMAS
    for schema in candidates:
        if not schema.missing(columns, pooled=pooled):
            return schema
    found = ", ".join(columns) or "none"
    for schema in candidates:
        missing = schema.missing(columns, pooled=pooled)
        if missing == [schema.required["annotator"]]:
            raise BadInputError(
                f"there is no {missing[0]} column (found: {found}): without it all votes can only be taken "
                "as one pooled annotator's, and that has to be asked for (--pool-annotators)"
            )
    missing = candidates[0].missing(columns, pooled=pooled)
    raise BadInputError(f"missing columns: {', '.join(missing)} (found: {found})")
