"""Converts columns of some formats to the fields of a vote. The descriptions of formats name these functions."""

from collections.abc import Callable, Mapping
from typing import Literal

import polars as pl

from app.leaderboard.row_files import FORMULA

COUNTED: Mapping[Literal["wins_a", "wins_b", "ties"], str] = {"wins_a": "model_a", "wins_b": "model_b", "ties": "tie"}
MOST_COUNTED = 10_000
"""Votes of one row that are recorded one by one."""
_FLAGS = {"true": "1", "t": "1", "false": "0", "f": "0", "": "0"}


def from_counts(frame: pl.DataFrame) -> pl.DataFrame:
    """Make a row for each outcome that occurred, of weight so often; of a battle, which is one vote, one row.

    Its winner is then the share of model_a, 1 or 0, 0.5 for a tie. A record with a bad count is invalid.
    """
    numbers = {name: _count(name) if name in frame.columns else pl.lit(0.0) for name in COUNTED}
    total = pl.sum_horizontal(*numbers.values())
    bad = pl.any_horizontal((number.is_null() | (number < 0)).alias(name) for name, number in numbers.items())
    if "battle_id" in frame.columns:
        share = (numbers["wins_a"] + numbers["ties"] / 2).cast(pl.String)
        none = pl.when((total == 0) & ~bad).then(pl.lit("")).otherwise(_said(frame))
        whole = ((total - 1).abs() < 1e-6) & ~bad  # noqa: PLR2004  of rounded fractions
        return frame.with_columns(winner=pl.when(whole).then(share).otherwise(none))
    rows = [
        frame.with_columns(winner=pl.lit(word), weight=numbers[name].cast(pl.String)) for name, word in COUNTED.items()
    ]
    rows.append(frame.with_columns(winner=_said(frame), weight=pl.lit("1")).filter(bad))
    rows.append(frame.with_columns(winner=pl.lit(""), weight=pl.lit("1")).filter((total == 0) & ~bad))
    kept = pl.col("weight").cast(pl.Float64, strict=False) > 0
    return pl.concat([*(part.filter(kept & ~bad) for part in rows[:3]), *rows[3:]]).sort("row", maintain_order=True)


def with_single_votes(frame: pl.DataFrame, which: pl.Expr) -> pl.DataFrame:
    """Return the rows with one for each vote of some, as rankings and votes on record are; other weights stay."""
    number = pl.col("weight").cast(pl.Float64, strict=False)
    several = which & (number > 1) & (number == number.floor()) & (number <= MOST_COUNTED)
    times = pl.when(several).then(number).otherwise(1).cast(pl.UInt32)
    frame = frame.with_columns(times=times, weight=pl.when(several).then(pl.lit("1")).otherwise("weight"))
    return frame.select(pl.exclude("times").repeat_by("times")).explode(frame.drop("times").columns)


def _said(frame: pl.DataFrame) -> pl.Expr:
    """Return the counts as they are written, for the message on a bad one."""
    return pl.concat_str([_text(name) for name in COUNTED if name in frame.columns], separator=",")


def with_equal(frame: pl.DataFrame) -> pl.DataFrame:
    """Read a tie from the flag `equal`; a winner beside it is an error."""
    flag, named = _text("equal").str.to_lowercase().replace(_FLAGS), _text("winner")
    contradiction = pl.concat_str(pl.lit("both_equal and "), named)
    tie = pl.when(named == "").then(pl.lit("both_equal")).otherwise(contradiction)
    odd = pl.concat_str(pl.lit("both_equal: "), flag)
    number = flag.cast(pl.Float64, strict=False)
    return frame.with_columns(winner=pl.when(number == 0).then(named).when(number == 1).then(tie).otherwise(odd))


def from_fastchat_log(frame: pl.DataFrame) -> pl.DataFrame:
    """Take the models that answered, or else the models shown; acts other than votes have no winner."""
    votes = ("leftvote", "rightvote", "tievote", "bothbad_vote")
    sides = [
        pl.when(_text(f"model_{side}") != "")
        .then(f"model_{side}")
        .otherwise(pl.col(f"shown_{side}").str.replace(r"^### Model [AB]: ", ""))
        .alias(f"model_{side}")
        for side in "ab"
    ]
    kind = pl.when(pl.col("winner").is_in(votes)).then("winner").otherwise(pl.lit(""))
    return frame.with_columns(*sides, winner=kind)


def with_known_answers(frame: pl.DataFrame) -> pl.DataFrame:
    """Name the answers "right" and "wrong" by the label.

    Games without a verdict, and those of a record without a known label, are no votes. A verdict that is the number of
    an answer, whatever its side, is that of the sides where these are swapped.
    """
    label, key = _text("label"), pl.col("annotator_kind") == "human"
    first = label.is_in(["A>B", "1"])
    known = first | label.is_in(["B>A", "2"])
    names = [
        pl.when((pl.col(side) == "first") == first).then(pl.lit("right")).otherwise(pl.lit("wrong")).alias(side)
        for side in ("model_a", "model_b")
    ]
    word = _text("winner")
    if "swapped" in frame.columns:
        word = pl.when(pl.col("swapped") == "yes").then(word.replace({"1": "2", "2": "1"})).otherwise(word)
    return frame.with_columns(*names, winner=pl.when(key | known).then(word).otherwise(pl.lit("")))


def from_ranks(frame: pl.DataFrame) -> pl.DataFrame:
    """Make a vote of each pair of systems of a row by their ranks, of which the lower is better, from 1; -1 is none."""
    first, second = (pl.col(name).cast(pl.Int64, strict=False) for name in ("first_score", "second_score"))
    order = (
        pl.when(first.is_null() | second.is_null() | (first == 0) | (second == 0))
        .then(pl.concat_str(_text("first_score"), pl.lit(" "), _text("second_score")))
        .when((first < 0) | (second < 0))
        .then(pl.lit(""))
        .when(first == second)
        .then(pl.lit("tie"))
        .otherwise(pl.when(first < second).then(pl.lit("model_a")).otherwise(pl.lit("model_b")))
    )
    votes = frame.with_columns(winner=order)
    for side in ("model_a", "model_b"):
        votes = votes.with_columns(pl.col(side).str.split("+")).explode(side)
    if "battle_id" in votes.columns:
        named = pl.concat_str("battle_id", "model_a", "model_b", separator="/")
        votes = votes.with_columns(battle_id=named)
    return votes


def with_turn(frame: pl.DataFrame) -> pl.DataFrame:
    """Take a question and its turn as one question: the answers are others."""
    if not {"question", "turn"} <= set(frame.columns):
        return frame
    return frame.with_columns(question=pl.concat_str("question", "turn", separator="/"))


def without_apostrophes(frame: pl.DataFrame) -> pl.DataFrame:
    """Remove the apostrophe that our CSV exports put before texts that a spreadsheet reads as formulas."""
    escaped = "^'" + FORMULA[1:]
    texts = ("annotator", "model_a", "model_b", "battle_id")
    return frame.with_columns(
        pl.when(pl.col(name).str.contains(escaped)).then(pl.col(name).str.slice(1)).otherwise(name).alias(name)
        for name in texts
        if name in frame.columns
    )


DERIVATIONS: Mapping[str, Callable[[pl.DataFrame], pl.DataFrame]] = {
    function.__name__: function
    for function in (
        from_counts, from_fastchat_log, with_known_answers, from_ranks, with_turn, without_apostrophes,
    )
}  # fmt: skip


def _text(column: str) -> pl.Expr:
    return pl.col(column).fill_null("")


def _count(column: str) -> pl.Expr:
    """Return a count, or 1 or 0 for a flag; null for what is neither."""
    return _text(column).str.to_lowercase().replace(_FLAGS).cast(pl.Float64, strict=False)
