"""What a file says of both answers of a vote beside the verdict, such as their length."""

import json
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import polars as pl

from app.errors import BadInputError
from app.imports.formats.schemas import Form, Input, derive
from app.rating.arrays import Floats
from app.rating.errors import counted
from app.rating.votes.features import SIDE, Features, measure_features

ARENA: Mapping[str, str] = {
    "length": "conv_metadata.sum_assistant_{}_tokens",
    "headers": "conv_metadata.header_count_{}",
    "lists": "conv_metadata.list_count_{}",
    "bold": "conv_metadata.bold_count_{}",
}
"""Where LMArena's files have measures; a count by kind is summed."""

IN_ORDER = (
    None, derive.from_one_hot, derive.from_name, derive.from_name_or_word, derive.from_name_or_equal, derive.with_turn,
    derive.without_apostrophes, derive.from_preference,
)  # fmt: skip
"""Formats whose records are one vote each, with the answers in the order of the file."""


def find_measures(features: Sequence[str], form: Form, has: Callable[[str], bool]) -> dict[Input, str]:
    """Return our name (`length_a`) → the file's column for both measures of each feature; `side` has none.

    Raises
    ------
    BadInputError
        The file does not have them.
    """
    found: dict[Input, str] = {}
    for name in features:
        if name == SIDE:
            continue
        for side in "ab":
            columns = [f"{name}_{side}", *([ARENA[name].format(side)] if name in ARENA else [])]
            column = next((column for column in columns if has(column)), None)
            if column is None or form.schema.derive not in IN_ORDER:
                raise BadInputError(f"the feature {name} needs the columns {name}_a and {name}_b")
            found[f"{name}_{side}"] = column  # type: ignore[index]  # beside the inputs that formats know
    return found


def read_features(frame: pl.DataFrame, names: Sequence[str]) -> Features | None:
    """Return the features of `VoteFile.frame`; None without names.

    Raises
    ------
    BadInputError
        A measure of a vote is no number.
    VotesError
        As `measure_features`.
    """
    if not names:
        return None
    columns = {name: (_numbers(frame[f"{name}_a"]), _numbers(frame[f"{name}_b"])) for name in names if name != SIDE}
    return measure_features(names, columns, frame.height)


def _numbers(texts: pl.Series) -> Floats:
    numbers = texts.cast(pl.Float64, strict=False)
    rest = (numbers.is_null() & texts.str.starts_with("{")).fill_null(value=False)
    if rest.any():
        summed = pl.Series([_sum(text) if by_kind else None for text, by_kind in zip(texts, rest, strict=True)])
        numbers = numbers.fill_null(summed.cast(pl.Float64))
    found = numbers.fill_null(np.nan).to_numpy()
    unknown = int(np.count_nonzero(~np.isfinite(found)))
    if unknown:
        raise BadInputError(f"{texts.name} is no number in {counted(unknown, 'vote')} of {len(found):,}")
    return found


def _sum(text: str) -> float | None:
    """Return the sum of an object's numbers; None where it is not one of numbers."""
    try:
        return float(sum(json.loads(text).values()))
    except (ValueError, TypeError, RecursionError):
        return None
