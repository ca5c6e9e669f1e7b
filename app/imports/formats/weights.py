"""Which column of a file says how many votes a row stands for."""

import shlex
from collections.abc import Callable, Collection, Sequence

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
