"""Finds which votes of a file are on record already, by what they say: each vote on record accounts for one."""

import json
from collections.abc import Iterator

import polars as pl

_UNITS = ("1s", "1m", "1h", "1d")
_NONE = pl.DataFrame(schema={"number": pl.Int64, "vote": pl.Int64})


def vote_keys(*, annotator: bool = True) -> pl.Expr:
    """Return annotator, models, verdict and criterion of each vote as one number, the same whichever model is model_a.

    Of the columns `annotator_id, model_a_id, model_b_id, outcome, criterion, ranking`; `annotator` False leaves out the
    first.
    """
    a, b, outcome = pl.col("model_a_id"), pl.col("model_b_id"), pl.col("outcome")
    mirrored = pl.when((a > b) & (outcome <= 1)).then(1 - outcome).otherwise(outcome)
    parts = [pl.min_horizontal(a, b), pl.max_horizontal(a, b), mirrored]
    parts += [pl.col("annotator_id")] if annotator else []
    numbers = [part.cast(pl.Int64).alias(str(i)) for i, part in enumerate(parts)]
    order = pl.col("ranking").map_elements(_in_order, return_dtype=pl.String, skip_nulls=True)
    return pl.struct(*numbers, "criterion", order).hash(seed=0)


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
    given = given.join(recorded.select("key").unique(), on="key", how="semi", maintain_order="left")
    recorded = recorded.join(given.select("key").unique(), on="key", how="semi", maintain_order="left")
    pairs = [_NONE]
    for of_given, of_recorded, time in _passes():
        if given.is_empty() or recorded.is_empty():
            break
        left, right = _turns(given.filter(of_given), time), _turns(recorded.filter(of_recorded), time)
        found = left.join(right, on=["key", "time", "turn"], how="inner", nulls_equal=True).select("number", "vote")
        pairs.append(found)
        given = given.join(found, on="number", how="anti", maintain_order="left")
        recorded = recorded.join(found, on="vote", how="anti", maintain_order="left")
    return pl.concat(pairs)


def _turns(votes: pl.DataFrame, time: pl.Expr) -> pl.DataFrame:
    """Count equal votes, so that the second of one side meets the second of the other."""
    return votes.with_columns(time=time).with_columns(turn=pl.int_range(pl.len()).over("key", "time"))


def _passes() -> Iterator[tuple[pl.Expr, pl.Expr, pl.Expr]]:
    """Yield the comparisons, the most exact first: which votes of either side take part, and what time has to agree."""
    at, battle = pl.col("voted_at"), pl.col("has_battle")
    anything = pl.lit(True)
    times: list[tuple[pl.Expr, pl.Expr, pl.Expr]] = [(anything, anything, at.dt.truncate(_UNITS[0]))]
    for unit in _UNITS[1:]:
        coarse = at.dt.truncate(unit)
        times += [(coarse == at, at.is_not_null(), coarse), (at.is_not_null(), coarse == at, coarse)]
    nothing = pl.lit(None, pl.Int64)
    times += [(anything, at.is_null(), nothing), (at.is_null(), anything, nothing)]
    for given, recorded, time in times:
        # Votes with two battles are the same vote or different ones by their battles, which is checked elsewhere.
        yield given & battle, recorded & ~battle, time
        yield given & ~battle, recorded, time
