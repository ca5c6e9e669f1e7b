"""How many votes a row of a file stands for: which column says so, and what it may say."""

import math
import shlex
from collections.abc import Callable, Collection, Sequence

import polars as pl

from app.errors import BadInputError
from app.rating.votes.measures import WEIGHT, find_unclear

HOW = "--columns weight= counts each row once (over HTTP columns=weight%3D)"


def find_weight(
    columns: Sequence[str], has: Callable[[str], bool], *, named: str | None, used: Collection[str], graded: bool
) -> str | None:
    """Return the column with the weights of a file; None without one.

    Parameters
    ----------
    named : what the user says of it: the column, or "" for none
    used : columns with another meaning
    graded : whether the records are grades of one answer

    Raises
    ------
    BadInputError
        The column named is missing; a column may have weights by its name; or grades have them.
    """
    if named is None:
        if unclear := find_unclear(columns, used):
            count = f"--columns {shlex.quote(f'weight={unclear[0]}')} counts each row so often, "
            raise BadInputError(
                f"the column {unclear[0]} may say how many votes a row stands for: {'' if graded else count}{HOW}"
            )
        named = WEIGHT if WEIGHT not in used and has(WEIGHT) else ""
    elif named and not has(named):
        raise BadInputError(f"there is no column {named!r}, which --columns names as the weight")
    if named and graded:
        raise BadInputError(f"the column {named} says how many votes a row stands for, and a grade is no vote: {HOW}")
    return named or None


def read_weights(texts: pl.Series) -> pl.Series:
    """Return the weights as numbers, null where they are not positive numbers."""
    number = texts.cast(pl.Float64, strict=False)
    return number.set(~(number.is_finite() & (number > 0)).fill_null(value=False), None)


def weight_fault(weight: float | None, *, ranked: bool) -> str:
    """Return what is wrong with a weight that is no positive number, or not 1 where a row is one vote."""
    if weight is None or not math.isfinite(weight):
        return "must be a positive number: how many equal votes the row stands for"
    what = "a ranking" if ranked else "a vote on record, or of a judge,"
    return f"is {weight:g}, but {what} is one vote: repeat the row as votes of its own, or {HOW}"
