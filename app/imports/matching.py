"""Finds which votes of a file are on record already, by what they say: each vote on record accounts for one."""

import json

import polars as pl

_UNITS = ("1s", "1m", "1h", "1d", None)
"""How coarsely times may be written, the finest first; None: not at all."""


def what_votes_say(*, annotator: bool = True) -> list[pl.Expr]:
    """Return annotator, models, verdict and criterion of each vote, the same whichever model is model_a.

    Of the columns `annotator_id, model_a_id, model_b_id, outcome, criterion, ranking`; `annotator` False leaves out the
    first. The columns are `annotator_id, low_id, high_id, outcome, criterion, ranking`, a ranking with sorted groups.
    """
    a, b, outcome = pl.col("model_a_id"), pl.col("model_b_id"), pl.col("outcome")
    mirrored = pl.when((a > b) & (outcome <= 1)).then(1 - outcome).otherwise(outcome)
    numbers = [
        pl.min_horizontal(a, b).alias("low_id"), pl.max_horizontal(a, b).alias("high_id"), mirrored.alias("outcome"),
        *([pl.col("annotator_id")] if annotator else []),
    ]  # fmt: skip
    order = pl.col("ranking").map_elements(_in_order, return_dtype=pl.String, skip_nulls=True)
    return [*(number.cast(pl.Int32) for number in numbers), pl.col("criterion"), order]


def vote_keys(*, annotator: bool = True) -> pl.Expr:
    """Return what each vote says as one number, as `what_votes_say`."""
    return pl.struct(what_votes_say(annotator=annotator)).hash(seed=0).reinterpret(signed=True)


def _in_order(ranking: str) -> str:
    return json.dumps([sorted(group) for group in json.loads(ranking)])


def match_votes(given: pl.DataFrame, recorded: pl.DataFrame) -> pl.DataFrame:
    """Pair votes of a file with votes on record that say the same; each vote is in one pair at most.

    Two votes say the same if they have the same annotator, models, verdict and criterion, and neither their times nor
    their battles differ. Times are compared to the second, or as coarsely as one of them is written (12:30:00 may stand
    for any time in its minute or hour, midnight for any time of its day); a missing time or battle may stand for any.

    Parameters
    ----------
    given : columns `number` (of the vote in the file), `key` (`vote_keys`), `voted_at`, `has_battle`.
    recorded : columns `vote` (its number here), `key`, `voted_at`, `has_battle`.

    Returns
    -------
    columns `number`, `vote`
    """
    pairs = [pl.DataFrame(schema={"number": pl.Int64, "vote": pl.Int64})]
    battle = pl.col("has_battle")
    # Votes with two battles are the same vote or different ones by their battles, which is checked elsewhere.
    for of_given, of_recorded in ((battle, ~battle), (~battle, pl.lit(value=True))):
        for unit in _UNITS:
            # After the finer units at most one side has votes that are written so coarsely: they come first.
            left, right = (_turns(votes, unit) for votes in (given.filter(of_given), recorded.filter(of_recorded)))
            found = left.join(right, on=["key", "time", "turn"], nulls_equal=True)
            found = found.filter(pl.col("whole") | pl.col("whole_right")).select("number", "vote")
            pairs.append(found)
            given = given.join(found, on="number", how="anti", maintain_order="left")
            recorded = recorded.join(found, on="vote", how="anti", maintain_order="left")
    return pl.concat(pairs)


def _turns(votes: pl.DataFrame, unit: str | None) -> pl.DataFrame:
    """Count votes that say the same in a unit of time, so that the second of one side meets the second of the other."""
    at = pl.col("voted_at")
    time = at.dt.truncate(unit) if unit else pl.lit(None, pl.Int64)
    whole = pl.lit(value=True) if unit == _UNITS[0] else (time == at).fill_null(value=True) if unit else at.is_null()
    votes = votes.with_columns(time=time, whole=whole).sort(~pl.col("whole"), maintain_order=True)
    return votes.with_columns(turn=pl.int_range(pl.len()).over("key", "time"))
