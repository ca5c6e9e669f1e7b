"""Checks a batch of records: the rules that make a record a vote, and the messages for broken rules."""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial, reduce
from operator import or_

import polars as pl

from app.imports.formats.measures import join_measures
from app.imports.formats.options import DayOrder
from app.imports.formats.schemas import POOLED_ANNOTATOR, Form, Input, Scale, Schema, is_number
from app.imports.formats.schemas.derive import DERIVATIONS, with_equal, with_single_votes
from app.imports.formats.sources import RawBatch
from app.imports.formats.timestamps import TIMESTAMP, parse_timestamps, timestamp_fault
from app.imports.formats.values import convert_each, parse_features, parse_metadata, parse_ranking, parse_tags
from app.imports.formats.verdicts import Verdicts, read_outcomes
from app.imports.formats.weights import HOW
from app.imports.formats.words import SAY_MORE, shown, winner_fault
from app.naming.names import label_error, name_error
from app.votes.prompts import WRITTEN
from app.votes.rules import IN_FUTURE, MAX_CLOCK_SKEW, MAX_CRITERION_LENGTH, WINNERS, pairs_of, stated_criterion

NAMES: tuple[Input, ...] = ("annotator", "model_a", "model_b", "battle_id", "criterion")
KINDS = ("human", "judge")
_OF_PAIR: tuple[Input, ...] = ("model_a", "model_b", "winner", "features")
_PLAIN_NAME = r"^[!-~]([ -~]{0,498}[!-~])?$"
"""Printable ASCII of a valid length is a valid name; only other names are checked one by one."""

VOTE_COLUMNS: pl.Schema = pl.Schema(
    {
        "annotator": pl.String(),
        "model_a": pl.String(),
        "model_b": pl.String(),
        "outcome": pl.Int8(),
        "battle_id": pl.String(),
        "voted_at": TIMESTAMP,
        "tags": pl.List(pl.String()),
        "metadata": pl.String(),
        "propensity": pl.String(),
        "vote_id": pl.String(),
        "annotator_kind": pl.String(),
        "criterion": pl.String(),
        "question": pl.String(),
        "prompt": pl.Int64(),
        "cost": pl.String(),
        "features": pl.String(),
        "ranked_names": pl.String(),
        "weight": pl.Float64(),
        "share": pl.Float64(),
        "row": pl.Int64(),
    }
)
"""The columns of checked votes; only annotator, models, outcome and row are never null.

`weight` is how many votes the row stands for, null where no column says so; `share` the probability of model_a where
a soft verdict has one; `prompt` the key of what the models were asked (`app.votes.prompts`). Propensities and costs are
as they are written: only `rate` and `judges` read them.
`ranked_names` is a ranking as JSON, whose first pair by name the models and the outcome are. A `vote_id` is that of a
vote that this service exported; other values than UUIDs are null, because other services have such columns too.
"""
_UUID = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"

RecordFault = tuple[int, Input | None, str]
"""A record's number, its field (None: the whole record), and the error."""


@dataclass(frozen=True)
class Checked:
    """A checked batch.

    Attributes
    ----------
    votes : with the columns `VOTE_COLUMNS`; `row` is the record's number.
    records : number of records in the batch.
    skipped : records without a vote.
    rejected : invalid records.
    faults : the errors of the first invalid records.
    unknown : outcome words that the format does not know, with their number.
    alone : of those skipped, pairs of a model with itself.
    rounded : verdicts that say more than their outcome, with their number.
    untimed : times that cannot be read, and are left out.
    a_time : the first of them, with the number of its record.
    """

    votes: pl.DataFrame
    records: int
    skipped: int
    rejected: int
    faults: list[RecordFault]
    unknown: dict[str, int]
    alone: int = 0
    rounded: dict[str, int] = field(default_factory=dict)
    untimed: int = 0
    a_time: tuple[str, int] | None = None


@dataclass(frozen=True)
class _Broken:
    """A rule with the rows that break it, and the message for a row."""

    field: Input | None
    rows: pl.Series
    detail: Callable[[int], str]


def check_batch(
    raw: RawBatch,
    form: Form,
    *,
    first_row: int,
    max_faults: int,
    now: datetime,
    order: DayOrder | None = None,
    scale: Scale | None = None,
) -> Checked:
    """Sort a batch into votes, records without a vote, and invalid records, each with its first broken rule.

    `first_row` is the number of the batch's first record, `now` the time after which no vote can be cast. Where a
    record makes several votes, one invalid vote makes the whole record invalid. `order` is that of day and month in
    dates such as 03/25/2026, `scale` that of verdicts that are numbers. A pair of a model with itself is no vote.
    """
    schema, kept = form.schema, form.options.keep_features
    records = raw.frame.height
    frame = _prepared(raw.frame, form, first_row)
    uncertain = dict(raw.ambiguous)
    for name in ("winner", *form.listed):
        uncertain |= raw.unusable.get(name, {})
    empty = _text(frame["winner"]).str.strip_chars().is_in(["", *schema.no_vote])
    alone = (frame["model_a"] == frame["model_b"]).fill_null(value=False) & (frame["model_a"] != "")
    for side in form.listed:  # of an empty list
        empty |= ~_is_given(frame[side])
    no_vote = (empty | alone) & ~_rows(frame, uncertain, first_row) & ~_is_given(frame["ranking"])
    skipped, itself = int(no_vote.sum()), int((no_vote & ~empty).sum())
    frame = frame.filter(~no_vote)

    parse = partial(parse_ranking, most=form.most_ranked)
    rankings, bad_ranking = _parsed("ranking", frame["ranking"].alias("ranked_names"), parse)
    of_pair = (_is_given(frame[name]) for name in (*_OF_PAIR, *(form.measures if kept else ())))
    beside = rankings.is_not_null() & reduce(or_, of_pair)
    frame = _with_first_pairs(frame, rankings)
    verdicts = read_outcomes(frame, form, scale or schema.scale)
    outcome, graded = verdicts.outcome, verdicts.graded
    shares = verdicts.share if form.options.soft else verdicts.share.clear(frame.height)
    timestamps = parse_timestamps(frame["voted_at"], schema.clock, order)
    late = (timestamps > now + MAX_CLOCK_SKEW).fill_null(value=False)
    untimed = (timestamps.is_null() | late) & _is_given(frame["voted_at"])
    if not kept and untimed.any():  # nothing uses them
        timestamps = timestamps.set(late, None)
    tags, bad_tags = _parsed("tags", frame["tags"], parse_tags)
    documents, bad_document = _parsed("metadata", frame["metadata"], parse_metadata)
    features, bad_features = _parsed("features", frame["features"], parse_features)
    measures, no_numbers = join_measures(frame, form.measures, features) if kept else (features, {})
    weights, ranked = _weights(frame["weight"].cast(pl.String)), rankings.is_not_null()
    light = weights.is_null() if form.weight else _at({}, frame.height)
    if form.options.soft and not form.options.judged:  # where a battle counts once
        weights = _times(weights, verdicts)
    heavy = (weights != 1).fill_null(value=False) & (ranked | (kept or form.options.judged))
    broken = [
        _unusable(frame, None, raw.ambiguous, first_row),
        *(_unusable(frame, name, why, first_row) for name, why in raw.unusable.items()),
        bad_ranking,
        _Broken("ranking", beside, lambda _: "must not be beside models, a winner or features, which are of a pair"),
        *_broken_rules(frame, outcome),
        *(_broken_times(frame, schema, timestamps, late) if kept else ()),
        bad_tags,
        bad_document,
        bad_features,
        *(_Broken(name, rows, lambda _: "must be a number") for name, rows in no_numbers.items()),
        _Broken("weight", light | heavy, lambda row: _weight_fault(weights[row], ranked=bool(ranked[row]))),
    ]
    faulty = _at({}, frame.height)
    for rule in broken:
        faulty = faulty | rule.rows
    votes = frame.select(
        "annotator", "model_a", "model_b",
        outcome.alias("outcome"),
        pl.when(pl.col("battle_id") != "").then("battle_id"),
        timestamps.alias("voted_at"), tags.alias("tags"),
        _with_raw_winner(frame["winner"], graded, documents),
        "propensity",
        pl.when(pl.col("vote_id").str.contains(_UUID)).then("vote_id"),
        pl.when(pl.col("annotator_kind") != "").then("annotator_kind"),
        pl.when(~pl.col("criterion").is_in(_overall(frame["criterion"]))).then("criterion"),
        "question", frame["asked"].str.strip_prefix(WRITTEN).alias("prompt"), "cost", measures, rankings, weights,
        shares.alias("share"),
        "row",
        *(() if kept else form.measures),
    )  # fmt: skip
    bad_records = votes["row"].filter(faulty).unique(maintain_order=True)
    if len(bad_records):
        votes = votes.filter(~pl.col("row").is_in(bad_records.implode()))
    return Checked(
        votes=votes.cast(VOTE_COLUMNS),
        records=records,
        skipped=skipped,
        rejected=len(bad_records),
        faults=_first_faults(frame["row"], faulty, broken, max_faults),
        unknown=_count(frame["winner"], outcome.is_null() & (frame["winner"] != "")),
        alone=itself,
        rounded={} if form.options.soft else _count(frame["winner"], graded),
        untimed=0 if kept else int(untimed.sum()),
        a_time=None if kept else _first_time(frame.filter(untimed)),
    )


def unread_numbers(raw: RawBatch, form: Form) -> pl.Series:
    """Return the verdicts of a batch that are numbers, and neither words nor names of models."""
    words = raw.frame["winner"] if "winner" in raw.frame.columns else pl.Series(dtype=pl.String)
    has_scale = form.schema.scale is not None or any(map(is_number, (*form.schema.winners, *form.verdicts)))
    if has_scale or not any(map(is_number, words.unique().drop_nulls())):
        return words.clear()
    frame = _prepared(raw.frame, form, 0)
    outcome = read_outcomes(frame, form, None).outcome
    return frame["winner"].filter(outcome.is_null() & (frame["winner"].fill_null("") != ""))


def _first_time(frame: pl.DataFrame) -> tuple[str, int] | None:
    return None if frame.is_empty() else (str(frame["voted_at"][0]), int(frame["row"][0]))


def _count(words: pl.Series, rows: pl.Series) -> dict[str, int]:
    return dict(words.filter(rows).value_counts().iter_rows())


def _times(weights: pl.Series, verdicts: Verdicts) -> pl.Series:
    """Return the weights of rows times the strength of their verdicts."""
    strength = verdicts.strength
    return (
        pl.select(pl.when(strength.is_null()).then(weights).otherwise(weights.fill_null(1.0) * strength))
        .to_series()
        .alias(weights.name)
    )


def _prepared(frame: pl.DataFrame, form: Form, first_row: int) -> pl.DataFrame:
    """Return the records with their numbers, and every field of a vote in its column."""
    frame = frame.with_columns(pl.int_range(first_row, first_row + frame.height, dtype=pl.Int64).alias("row"))
    if form.annotator is None:
        voted = pl.lit(form.schema.annotator or POOLED_ANNOTATOR)
        own = "annotator" in frame.columns and not form.options.pool_annotators
        frame = frame.with_columns(annotator=pl.col("annotator").fill_null(voted) if own else voted)
    if form.options.annotator_prefix:
        named = pl.concat_str(pl.lit(form.options.annotator_prefix), pl.col("annotator"))
        frame = frame.with_columns(annotator=pl.when(pl.col("annotator") != "").then(named).otherwise("annotator"))
    if form.schema.derive:
        frame = DERIVATIONS[form.schema.derive](frame)
    if "weight" in frame.columns and not form.options.judged:
        counts, ranked = "wins_a" in frame.columns, "ranking" in frame.columns
        if counts if form.options.keep_features else ranked:
            frame = with_single_votes(frame, pl.lit(value=True) if counts else pl.col("ranking").fill_null("") != "")
    if "equal" in frame.columns:
        frame = with_equal(frame)
    if "battle_id" in frame.columns and form.varied:
        frame = frame.with_columns(battle_id=pl.concat_str("battle_id", *form.varied, separator="/"))
    missing = [name for name in (*VOTE_COLUMNS, "ranking", "winner", "asked") if name not in frame.columns]
    return frame.with_columns(pl.lit(None, VOTE_COLUMNS.get(name, pl.String())).alias(name) for name in missing)


def _with_first_pairs(frame: pl.DataFrame, rankings: pl.Series) -> pl.DataFrame:
    """Return the records with the first pair of a ranking, by name, in the place of models and winner."""
    if not rankings.count():
        return frame
    pairs = [None if text is None else pairs_of(json.loads(text))[0] for text in rankings]
    columns = {
        name: pl.Series(name, [None if pair is None else pair[place] for pair in pairs], pl.String)
        for place, name in enumerate(("model_a", "model_b"))
    }
    columns["winner"] = pl.Series("winner", [None if pair is None else WINNERS[pair[2]] for pair in pairs], pl.String)
    ranked = rankings.is_not_null()
    return frame.with_columns(
        pl.when(ranked).then(column).otherwise(frame[name]).alias(name) for name, column in columns.items()
    )


def _broken_rules(frame: pl.DataFrame, outcome: pl.Series) -> list[_Broken]:
    return [
        *(_bad_names(frame[name], name) for name in NAMES),
        _Broken(
            "annotator_kind",
            _is_given(frame["annotator_kind"]) & ~frame["annotator_kind"].is_in(KINDS),
            lambda row: f"must be human or judge, is {shown(frame['annotator_kind'][row])}",
        ),
        _Broken(
            "criterion",
            (frame["criterion"].str.len_chars() > MAX_CRITERION_LENGTH).fill_null(value=False),
            lambda row: f"must have at most {MAX_CRITERION_LENGTH} characters, is {shown(frame['criterion'][row])}",
        ),
        _Broken("winner", outcome.is_null(), lambda row: winner_fault(frame["winner"][row])),
    ]


def _broken_times(frame: pl.DataFrame, schema: Schema, timestamps: pl.Series, late: pl.Series) -> list[_Broken]:
    times = frame["voted_at"]
    return [
        _Broken(
            "voted_at",
            timestamps.is_null() & _is_given(times),
            lambda row: f"{shown(times[row])} {timestamp_fault(times[row], schema.clock)}",
        ),
        _Broken("voted_at", late, lambda row: f"{shown(times[row])} {IN_FUTURE}"),
    ]


def _first_faults(rows: pl.Series, faulty: pl.Series, broken: list[_Broken], at_most: int) -> list[RecordFault]:
    faults: dict[int, RecordFault] = {}
    for i in faulty.arg_true():
        if len(faults) >= at_most:
            break
        rule = next(b for b in broken if b.rows[i])
        faults.setdefault(rows[i], (rows[i], rule.field, rule.detail(i)))
    return list(faults.values())


def _unusable(frame: pl.DataFrame, name: Input | None, why: dict[int, str], first_row: int) -> _Broken:
    return _Broken(name, _rows(frame, why, first_row), lambda i: why[frame["row"][i] - first_row])


def _rows(frame: pl.DataFrame, why: dict[int, str], first_row: int) -> pl.Series:
    """Mark the rows that were made of these records of the batch."""
    return frame["row"].is_in([first_row + row for row in why])


def _at(why: dict[int, str], height: int) -> pl.Series:
    rows = pl.Series("rows", [False]).new_from_index(0, height)
    return rows.scatter(list(why), True) if why else rows


def _bad_names(values: pl.Series, name: Input) -> _Broken:
    """Find invalid names; only battle_id and criterion may be missing."""
    optional, check = name in ("battle_id", "criterion"), label_error if name == "criterion" else name_error
    names = values.unique()  # many votes name the same
    suspects = names.filter(~names.str.contains(_PLAIN_NAME).fill_null(value=False))
    bad = {text: fault for text in suspects if (text or not optional) and (fault := check(text or ""))}
    rows = values.is_in(list(bad), nulls_equal=True) if bad else _at({}, len(values))
    return _Broken(name, rows, lambda row: bad[values[row]])


def _overall(criteria: pl.Series) -> list[str]:
    """Return what stands for no criterion in a column."""
    return ["", *(said for said in criteria.drop_nulls().unique() if stated_criterion(said) is None)]


def _parsed(field: Input, values: pl.Series, parse: Callable[[str], object]) -> tuple[pl.Series, _Broken]:
    """Return the parsed values, null where there is no text, and the rule that they break."""
    dtype, why = VOTE_COLUMNS[values.name], dict[int, str]()
    if values.null_count() == len(values):
        parsed = pl.Series(values.name, [None], dtype).new_from_index(0, len(values))
    else:
        found, why = convert_each(values, lambda text: parse(text) if text else None)
        parsed = pl.Series(values.name, found, dtype)
    return parsed, _Broken(field, _at(why, len(values)), why.__getitem__)


def _with_raw_winner(words: pl.Series, graded: pl.Series, documents: pl.Series) -> pl.Series:
    """Add an outcome word, or number, that says more than its code to the metadata, which are JSON texts or null."""
    more = words.is_in(SAY_MORE) | graded
    if not more.any():
        return documents.alias("metadata")
    raw_winner = pl.concat_str(pl.lit('{"raw_winner":"'), "word", pl.lit('"'))
    empty = pl.col("document").fill_null("{}") == "{}"
    others = pl.concat_str(pl.lit(","), pl.col("document").str.slice(1))
    rest = pl.when(empty).then(pl.lit("}")).otherwise(others)
    both = pl.DataFrame({"word": words, "document": documents, "more": more})
    return both.select(metadata=pl.when("more").then(pl.concat_str(raw_winner, rest)).otherwise("document")).to_series()


def _text(values: pl.Series) -> pl.Series:
    return values.fill_null("")


def _is_given(values: pl.Series) -> pl.Series:
    given = values.is_not_null()
    return given & (values != "") if values.dtype == pl.String else given


def _weights(texts: pl.Series) -> pl.Series:
    """Return the weights as numbers, null where they are not positive numbers."""
    number = texts.cast(pl.Float64, strict=False)
    return number.set(~(number.is_finite() & (number > 0)).fill_null(value=False), None)


def _weight_fault(weight: float | None, *, ranked: bool) -> str:
    """Return what is wrong with a weight that is no positive number, or not 1 where a row is one vote."""
    if weight is None or not math.isfinite(weight):
        return "must be a positive number: how many equal votes the row stands for"
    what = "a ranking" if ranked else "a vote on record, or of a judge,"
    return f"is {weight:g}, but {what} is one vote: repeat the row as votes of its own, or {HOW}"
