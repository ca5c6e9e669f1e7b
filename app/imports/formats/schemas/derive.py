"""Converts columns of some formats to the fields of a vote. The descriptions of formats name these functions."""

import json
from collections.abc import Callable, Mapping

import polars as pl

from app.imports.formats.schemas.schema import FIRST, SECOND
from app.leaderboard.row_files import FORMULA

_FLAGS = {"true": "1", "t": "1", "1.0": "1", "false": "0", "f": "0", "0.0": "0"}


def from_one_hot(frame: pl.DataFrame) -> pl.DataFrame:
    """Read the winner from three columns: 1,0,0 means that model_a won."""
    flags = [_flag(name) for name in ("won_a", "won_b", "tied")]
    return frame.with_columns(winner=pl.concat_str(flags, separator=","))


def from_name(frame: pl.DataFrame) -> pl.DataFrame:
    """Read the winner from its name."""
    return frame.with_columns(winner=_side())


def from_name_or_word(frame: pl.DataFrame) -> pl.DataFrame:
    """Read the winner from its name, or from a word in any case."""
    named = _text("winner")
    is_name = (named == pl.col("model_a")) | (named == pl.col("model_b"))
    word = named.str.strip_chars().str.to_lowercase()
    return frame.with_columns(winner=pl.when(is_name.fill_null(value=False)).then(_side()).otherwise(word))


def from_name_or_equal(frame: pl.DataFrame) -> pl.DataFrame:
    """Read the winner from its name, or a tie from a flag; both together are an error."""
    equal, named = _flag("equal"), _text("winner")
    contradiction = pl.concat_str(pl.lit("both_equal and "), named)
    tie = pl.when(named == "").then(pl.lit("both_equal")).otherwise(contradiction)
    odd = pl.concat_str(pl.lit("both_equal: "), equal)
    chosen = pl.when(equal.is_in(["", "0"])).then(_side()).when(equal == "1").then(tie).otherwise(odd)
    return frame.with_columns(winner=chosen)


def as_chosen(frame: pl.DataFrame) -> pl.DataFrame:
    """Set model_a as the winner: the format has a column for the chosen model."""
    return frame.with_columns(winner=pl.lit("chosen"))


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


def from_feedback(frame: pl.DataFrame) -> pl.DataFrame:
    """Make one vote against each sibling of the rated answer; none without siblings."""
    siblings = pl.Series("model_b", [_names(text) for text in frame["siblings"]], pl.List(pl.String))
    alone = siblings.list.len() == 0
    # a record without siblings keeps one row, so that it is counted
    votes = frame.drop("model_b", strict=False).with_columns(siblings, alone.alias("alone"))
    votes = votes.explode("model_b", empty_as_null=True, keep_nulls=True)
    return votes.with_columns(
        winner=pl.when("alone").then(pl.lit("")).otherwise(_text("winner")),
        battle_id=pl.concat_str("battle_id", "model_b", separator="/"),
    ).drop("alone")


def from_games(frame: pl.DataFrame) -> pl.DataFrame:
    """Make a vote of each of two games, the second with the sides exchanged; a game may have no verdict.

    A `second_number` is a verdict by the number of the answer, whatever its side.
    """
    if "second_number" in frame.columns:
        frame = frame.with_columns(second_score=pl.col("second_number").replace({"1": "2", "2": "1"}))
    if "model_a" not in frame.columns:
        frame = frame.with_columns(model_a=pl.lit("baseline"))
    first = frame.with_columns(winner=_text("first_score"))
    second = frame.with_columns(model_a="model_b", model_b="model_a", winner=_text("second_score"))
    votes = pl.concat([first, second]).sort("row", maintain_order=True)
    decided = ~pl.col("winner").is_in(["", "None"])
    alone = ~decided.any().over("row") & pl.col("row").is_first_distinct()  # so that the record is counted
    votes = votes.filter(decided | alone)
    if "battle_id" in votes.columns:
        votes = votes.with_columns(battle_id=pl.concat_str("battle_id", "model_a", "model_b", separator="/"))
    return votes


def from_games_with_key(frame: pl.DataFrame) -> pl.DataFrame:
    """Make votes between the answers "right" and "wrong" as `from_games`, and one of the annotator "key" by the label.

    A record without a label has no vote; one with an unknown label is invalid.
    """
    right, wrong, first = pl.lit("right"), pl.lit("wrong"), _text("label").is_in(["A>B", "1"])
    frame = frame.with_columns(
        model_a=pl.when(first).then(right).otherwise(wrong), model_b=pl.when(first).then(wrong).otherwise(right)
    )
    games = from_games(frame).filter(~pl.col("winner").is_in(["", "None"]) & (_text("label") != ""))
    games = games.with_columns(annotator_kind=pl.lit("judge"))
    key = frame.with_columns(winner=_text("label"), annotator=pl.lit("key"), annotator_kind=pl.lit("human"))
    return pl.concat([games, key], how="diagonal").sort("row", maintain_order=True)


def from_preference(frame: pl.DataFrame) -> pl.DataFrame:
    """Read the winner from a number between 1, the first answer, and 2, the second; 1.5 and 0 are a draw.

    A number between them is a grade, and kept in the metadata.
    """
    given, number = _text("preference"), pl.col("preference").cast(pl.Float64, strict=False)
    between = number.is_between(1, 2, closed="none") & (number != 1.5)  # noqa: PLR2004  the middle
    grade = pl.when(between).then(pl.concat_str(pl.lit('{"preference":'), number.cast(pl.String), pl.lit("}")))
    outcome = (
        pl.when((number == 0) | (number == 1.5))  # noqa: PLR2004  the middle
        .then(pl.lit("draw"))
        .when(number.is_between(1, 2))
        .then(pl.when(number < 1.5).then(pl.lit("output_1")).otherwise(pl.lit("output_2")))  # noqa: PLR2004  as above
        .otherwise(given)
    )
    return frame.with_columns(winner=outcome, metadata=grade)


def from_ranks(frame: pl.DataFrame) -> pl.DataFrame:
    """Make a vote of each pair of systems of a row by their ranks, of which the lower is better, from 1; -1 is none."""
    first, second = (pl.col(name).cast(pl.Int64, strict=False) for name in ("first_score", "second_score"))
    order = (
        pl.when(first.is_null() | second.is_null() | (first == 0) | (second == 0))
        .then(pl.concat_str(_text("first_score"), pl.lit(" "), _text("second_score")))
        .when((first < 0) | (second < 0))
        .then(pl.lit(""))
        .when(first == second)
        .then(pl.lit("equal"))
        .otherwise(pl.when(first < second).then(pl.lit("first")).otherwise(pl.lit("second")))
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
        from_one_hot, from_name, from_name_or_word, from_name_or_equal, as_chosen, from_fastchat_log, from_feedback,
        from_games, from_games_with_key, from_preference, from_ranks, with_turn, without_apostrophes,
    )
}  # fmt: skip


def _side() -> pl.Expr:
    named = _text("winner")
    first, second = named == pl.col("model_a"), named == pl.col("model_b")
    return pl.when(named == "").then(named).when(first).then(pl.lit(FIRST)).when(second).then(pl.lit(SECOND)).otherwise(
        named
    )  # fmt: skip


def _text(column: str) -> pl.Expr:
    return pl.col(column).fill_null("")


def _flag(column: str) -> pl.Expr:
    """Return 1 or 0; other texts unchanged."""
    return _text(column).str.to_lowercase().replace(_FLAGS)


def _names(text: str | None) -> list[str]:
    """Return the siblings' names; an invalid name where they are not a list, so that the record is invalid."""
    if not text:
        return []
    try:
        names = json.loads(text)
    except (ValueError, RecursionError):
        return [""]
    return [name if isinstance(name, str) else "" for name in names] if isinstance(names, list) else [""]
