"""Reads the verdict of a vote: a word, the name of the model that won, or a number on a scale."""

import shlex
from collections.abc import Iterable
from dataclasses import dataclass

import polars as pl

from app.errors import BadInputError
from app.imports.formats.schemas import NAME, Form, Scale, is_number
from app.rating.errors import counted
from app.rating.votes.words import STRONG, TIE, WORDS, A, B

STRENGTH = 3.0
"""How often a strong word counts, as in arena-hard."""
MIDDLE, UNIT = 0.5, 1.0
_MOST_DISTINCT = 1_000


class VerdictsError(BadInputError):
    """The verdicts of a file have two readings."""

    code = "verdicts"
    title = "The verdicts have two readings"


@dataclass(frozen=True)
class Verdicts:
    """The verdicts of a batch, a row each.

    Attributes
    ----------
    outcome : code, null for an unknown word
    share : the probability of model_a, null where the outcome says all
    strength : how often a graded verdict counts, null for once
    """

    outcome: pl.Series
    share: pl.Series
    strength: pl.Series

    @property
    def graded(self) -> pl.Series:
        """Whether a verdict says more than its outcome."""
        return self.share.is_not_null() | self.strength.is_not_null()


def read_outcomes(frame: pl.DataFrame, form: Form, scale: Scale | None) -> Verdicts:
    """Return the verdicts in the column `winner`.

    A word of the user or of the format comes first, then the name of a model of the row, then a word that every format
    knows, in any case, then a number on the scale.

    Raises VerdictsError: a word is known, and also the name of the row's other model.
    """
    words = frame["winner"].rename("word")
    known = _codes(words, form)
    sides = pl.DataFrame({"word": words, "a": frame["model_a"], "b": frame["model_b"]}).with_columns(known)
    named = pl.when(pl.col("word") == pl.col("a")).then(A).when(pl.col("word") == pl.col("b")).then(B)
    sides = sides.with_columns(named=named.cast(pl.Int8))
    clash = sides.filter(pl.col("named") != pl.col("general"), pl.col("own").is_null())
    if clash.height and not form.schema.rows:
        raise _two_readings(clash["word"][0], clash["general"][0])
    own = pl.when(pl.col("own") == NAME).then("named").otherwise("own")
    outcome = pl.when(pl.col("own").is_not_null()).then(own).otherwise(pl.coalesce("named", "general"))
    numbers = _graded(words, scale)
    frame = sides.with_columns(numbers).select(
        outcome=pl.coalesce(outcome, pl.col("of_number")).cast(pl.Int8),
        share=pl.when(pl.col("own").is_null()).then("share"),
        strength="strength",
    )
    return Verdicts(frame["outcome"], frame["share"], frame["strength"])


def _codes(words: pl.Series, form: Form) -> list[pl.Series]:
    """Return the outcome codes of words: `own` of the user's and the format's, `general` of those of every format."""
    distinct = words.unique()
    plain = {word: word.strip().lower() for word in distinct.drop_nulls()}
    own = {**form.schema.winners, **form.verdicts}
    found = {
        "own": {word: own[low] for word, low in plain.items() if low in own},
        "general": {word: WORDS[low] for word, low in plain.items() if low in WORDS},
    }
    return [
        words.replace_strict(codes, default=None, return_dtype=pl.Int8).alias(name) for name, codes in found.items()
    ]


def _graded(words: pl.Series, scale: Scale | None) -> list[pl.Series]:
    """Return what numbers and strong words say: `of_number`, `share`, `strength`."""
    distinct = words.unique().drop_nulls()
    outcome, share, strength = dict[str, int](), dict[str, float](), dict[str, float]()
    for word in distinct:
        if word.strip().lower() in STRONG:
            strength[word] = STRENGTH
        elif scale is not None and is_number(word):
            part = (float(word) - scale.right) / (scale.left - scale.right)
            if not 0.0 <= part <= 1.0:
                continue
            outcome[word] = TIE if part == MIDDLE else A if part > MIDDLE else B
            width = abs(scale.left - scale.right)
            if width <= UNIT:
                if part not in (0.0, MIDDLE, 1.0):
                    share[word] = part
            elif part != MIDDLE:
                middle = (scale.left + scale.right) / 2
                often = abs(float(word) - middle) / (UNIT if middle.is_integer() else UNIT / 2)
                if often != 1.0:
                    strength[word] = often
    return [
        words.replace_strict(values, default=None, return_dtype=dtype).alias(name)
        for name, values, dtype in (
            ("of_number", outcome, pl.Int8()), ("share", share, pl.Float64()), ("strength", strength, pl.Float64()),
        )
    ]  # fmt: skip


def _two_readings(word: str, code: int) -> VerdictsError:
    side = {A: "left", B: "right"}.get(code, "tie")
    return VerdictsError(
        f"the verdict {word[:80]!r} may be the word for {side} or the name of a model: give --verdict "
        f"{shlex.quote(f'{word}={side}')} or --verdict {shlex.quote(f'{word}=name')} (over HTTP the parameter verdict)"
    )


def find_scale(batches: Iterable[pl.Series]) -> tuple[Scale | None, str]:
    """Return the scale of the verdicts of a whole column, and a note on what was assumed.

    Numbers from 1 to 2, with both of them, have one reading: the number of the answer.

    Parameters
    ----------
    batches : the verdicts that are no words

    Raises VerdictsError: numbers have two readings; both commands are named.
    """
    distinct = set[float]()
    for values in batches:
        distinct.update(float(word) for word in values.unique().drop_nulls() if is_number(word))
        if len(distinct) > _MOST_DISTINCT:
            distinct = {min(distinct), max(distinct), *sorted(distinct)[1:_MOST_DISTINCT]}
    if {1.0, 2.0} <= distinct and min(distinct) == 1.0 and max(distinct) == 2.0:  # noqa: PLR2004  its number
        return Scale(1.0, 2.0), "verdicts are read as the number of the answer: 1 is the left one, 2 the right one"
    least, most = min(distinct, default=0.0), max(distinct, default=0.0)
    if least < 0.0:
        least, most = min(least, -most), max(most, -least)
    elif most <= UNIT:
        least, most = 0.0, 1.0
    if len(distinct) < 2:  # noqa: PLR2004  one number shows no scale
        return None, ""
    three = distinct == {0.0, 1.0, 2.0}
    readings = ["0=tie,1=left,2=right", "0=left,1=right,2=tie"] if three else _ends(least, most)
    shown = ", ".join(f"{value:g}" for value in sorted(distinct)[:5]) + (", …" if len(distinct) > 5 else "")  # noqa: PLR2004  as many as fit
    raise VerdictsError(
        f"the verdicts are numbers ({shown}) with two readings: give --verdict {readings[0]} or --verdict "
        f"{readings[1]} (over HTTP the parameter verdict)"
    )


def _ends(least: float, most: float) -> list[str]:
    return [f"{most:g}=left,{least:g}=right", f"{least:g}=left,{most:g}=right"]


def rounded_note(number: int, word: str, *, soft: bool) -> str:
    """Return what is said of graded verdicts that were rounded."""
    how = "; --soft counts them as they are" if soft else ""
    return f"{counted(number, 'graded verdict')} such as {word} rounded to a win of one side{how}"
