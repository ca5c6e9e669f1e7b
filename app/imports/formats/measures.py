"""What a file says of both answers of a vote beside the verdict, such as their length."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import polars as pl

from app.errors import BadInputError
from app.imports.formats.schemas import QUESTION_COLUMNS, Form, Input
from app.rating.errors import counted
from app.rating.settings import SIDE
from app.rating.votes.measures import Features, measure_known
from app.votes.rules import MAX_MEASURE

ARENA: Mapping[str, str] = {
    "length": "conv_metadata.sum_assistant_{}_tokens",
    "headers": "conv_metadata.header_count_{}",
    "lists": "conv_metadata.list_count_{}",
    "bold": "conv_metadata.bold_count_{}",
}
"""Where LMArena's files have measures; a count by kind is summed."""

SESSIONS = ("evaluation_session_id", "session_id", "session_hash", "session")
"""Columns of votes that hang together, where no annotator is known."""

IN_ORDER = (None, "from_counts", "with_turn", "without_apostrophes")
"""Formats whose records are one vote each, with the answers in the order of the file."""


def measure_columns() -> set[str]:
    """Return the names of columns that have measures, without what is inside of objects."""
    return {column.partition(".")[0] for name in ARENA for column in (f"{name}_a", f"{name}_b", ARENA[name])}


def find_measures(form: Form, has: Callable[[str], bool]) -> dict[Input, str]:
    """Return our name (`length_a`) → the file's column for both measures of each feature, and for the category.

    Without annotators also `cluster`, of the session or the prompt of a vote.

    None for `side`, which has none, nor for a feature that the file can only have in its column `features`.

    Raises BadInputError: the options require a feature that the file does not have.
    """
    options = form.options
    required = not (options.keep_features or options.judged)
    found: dict[Input, str] = {}
    ordered = {"ranking", "model"} & form.schema.inputs  # such votes have no two answers
    in_order = form.schema.derive in IN_ORDER and not ordered and not form.schema.rows and not form.listed
    noted = "features" in form.columns and has(form.columns["features"])
    for name in ARENA if options.keep_features else options.features:
        plain = tuple(f"{name}_{side}" for side in "ab")
        arena = tuple(ARENA[name].format(side) for side in "ab") if name in ARENA else plain
        columns = next((pair for pair in (plain, arena) if all(map(has, pair))), None)
        if columns is not None and in_order:
            found |= dict(zip(plain, columns, strict=True))  # type: ignore[arg-type]  # beside the inputs known
        elif required and name != SIDE and not noted:
            raise BadInputError(f"the feature {name} needs the columns {name}_a and {name}_b")
    alone = options.features and required and form.annotator is None
    if alone and (together := next((column for column in (*SESSIONS, *QUESTION_COLUMNS) if has(column)), None)):
        found["cluster"] = together  # type: ignore[index]  # beside the inputs known
    of_format = form.schema.optional.get("category", "") if options.by == "category" else ""
    if by := next((column for column in (options.by, of_format) if column and has(column)), None):
        found["category"] = by
    return found


def join_measures(
    frame: pl.DataFrame, measures: Iterable[Input], features: pl.Series
) -> tuple[pl.Series, dict[Input, pl.Series]]:
    """Return the features of votes as JSON texts, measures in columns of their own among them.

    A vote lacks a feature that one of its columns leaves blank. What `features` says goes first.

    Returns
    -------
    The texts, null for a vote without any; and the rows of a column that are neither a number nor blank.
    """
    numbers = {name: _numbers(frame[name]) for name in measures}
    strange = {
        name: ((frame[name].fill_null("") != "") & ~(found.abs() <= MAX_MEASURE).fill_null(value=False))
        for name, found in numbers.items()
    }
    parts = []
    for name in {name.removesuffix("_a"): None for name in numbers if name.endswith("_a")}:
        both = pl.DataFrame({side: numbers[f"{name}_{side}"].cast(pl.String) for side in "ab"})  # type: ignore[index]
        parts.append(both.select(pl.format(f'"{name}":[{{}},{{}}]', "a", "b").alias(name)).to_series())
    if not parts:
        return features, {}
    given = features.replace("{}", None).str.strip_prefix("{").str.strip_suffix("}")
    joined = pl.DataFrame([*parts, given]).select(joined=pl.concat_str(pl.all(), separator=",", ignore_nulls=True))
    texts = joined.select(features=pl.when(pl.col("joined") != "").then(pl.format("{{{}}}", "joined")))
    return texts.to_series(), strange


def read_measures(frame: pl.DataFrame, names: Sequence[str]) -> dict[str, pl.Series]:
    """Return the measures of both answers of `VoteFile.frame` for these features, as columns `length_a` and `length_b`.

    Raises BadInputError: a measure of a vote is no number.
    """
    return {f"{name}_{'ab'[side]}": _measures(frame, name, side) for name in names if name != SIDE for side in (0, 1)}


def read_known_features(frame: pl.DataFrame, names: Sequence[str]) -> Features | None:
    """Return those of these features that some votes have and differ in, NaN in other votes; None without any."""
    columns = {}
    for name in names:
        left, right = (_numbers(_texts(frame, name, side)).fill_null(np.nan).to_numpy() for side in (0, 1))
        columns[name] = (left, right)
    return measure_known(columns)


def _texts(frame: pl.DataFrame, name: str, side: int) -> pl.Series:
    column = f"{name}_{'ab'[side]}"
    if column in frame.columns:
        return frame[column]
    return frame["features"].str.json_path_match(f"$[{json.dumps(name)}][{side}]").alias(column)


def _measures(frame: pl.DataFrame, name: str, side: int) -> pl.Series:
    texts = _texts(frame, name, side)
    found = _numbers(texts)
    unknown = int(np.count_nonzero(~np.isfinite(found.fill_null(np.nan).to_numpy())))
    if unknown:
        raise BadInputError(f"{texts.name} is no number in {counted(unknown, 'vote')} of {len(found):,}")
    return found


def _numbers(texts: pl.Series) -> pl.Series:
    """Return texts as numbers, null where they are none; of an object of numbers the sum."""
    numbers = texts.cast(pl.Float64, strict=False)
    rest = (numbers.is_null() & texts.str.starts_with("{")).fill_null(value=False)
    if not rest.any():
        return numbers
    summed = pl.Series([_sum(text) if by_kind else None for text, by_kind in zip(texts, rest, strict=True)])
    return numbers.fill_null(summed.cast(pl.Float64))


def _sum(text: str) -> float | None:
    """Return the sum of an object's numbers; None where it is not one of numbers."""
    try:
        return float(sum(json.loads(text).values()))
    except (ValueError, TypeError, RecursionError):
        return None
