"""What makes a record a vote: every rule over a batch of records, and what to say where one is broken."""

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

from app.arena.files.documents import parse_metadata, parse_tags
from app.arena.files.moments import MOMENT, parse_moments
from app.arena.files.schemas import POOLED_ANNOTATOR, Field, Schema
from app.arena.files.sources import RawBatch
from app.arena.names import name_fault

NAMES: tuple[Field, ...] = ("annotator", "model_a", "model_b", "battle_id")
SHOWN_CHARACTERS = 80

VOTE_COLUMNS: pl.Schema = pl.Schema(
    {
        "annotator": pl.String(),
        "model_a": pl.String(),
        "model_b": pl.String(),
        "outcome": pl.Int8(),
        "battle_id": pl.String(),
        "voted_at": MOMENT,
        "tags": pl.List(pl.String()),
        "metadata": pl.String(),
        "row": pl.Int64(),
    }
)
"""The columns of checked votes; battle_id, voted_at, tags and metadata may be null."""


@dataclass(frozen=True)
class Checked:
    """A batch after the checks: its votes, how many records are none, and the first of those faults."""

    votes: pl.DataFrame
    rejected: int
    faults: list[tuple[int, Field, str]]


@dataclass(frozen=True)
class _Broken:
    """One rule's verdict: the rows that break it and what to say of one of them."""

    field: Field
    rows: pl.Series
    detail: Callable[[int], str]


def check_batch(raw: RawBatch, schema: Schema, *, pooled: bool, first_row: int, max_faults: int) -> Checked:
    """Sort a batch into votes and faulty records; a faulty record is named once, for its first broken rule.

    `first_row` is the record number of the batch's first record; faults carry (record number, field, detail).
    """
    frame = raw.frame
    if pooled:
        frame = frame.with_columns(pl.lit(POOLED_ANNOTATOR).alias("annotator"))
    missing = [name for name in ("battle_id", "voted_at", "tags", "metadata") if name not in frame.columns]
    frame = frame.with_columns(pl.lit(None, pl.String).alias(name) for name in missing)

    outcome = frame["winner"].replace_strict(dict(schema.winners), default=None, return_dtype=pl.Int8)
    moments = parse_moments(frame["voted_at"], schema.clock)
    tags, bad_tags = _parsed(frame["tags"], parse_tags)
    documents, bad_documents = _parsed(frame["metadata"], parse_metadata)
    same = (frame["model_a"] == frame["model_b"]).fill_null(value=False)
    broken = [
        *(_unusable(name, why, frame.height) for name, why in raw.unusable.items()),
        *(_bad_names(frame[name], name) for name in NAMES),
        _Broken("model_b", same, lambda row: f"is {_shown(frame['model_b'][row])} on both sides"),
        _Broken("winner", outcome.is_null(), lambda row: _winner_fault(frame["winner"][row], schema)),
        _Broken(
            "voted_at",
            moments.is_null() & _is_given(frame["voted_at"]),
            lambda row: f"{_shown(frame['voted_at'][row])} is no moment ({_CLOCKS[schema.clock]})",
        ),
        _unusable("tags", bad_tags, frame.height),
        _unusable("metadata", bad_documents, frame.height),
    ]
    faulty = pl.Series([False]).new_from_index(0, frame.height)
    for rule in broken:
        faulty = faulty | rule.rows
    votes = frame.select(
        "annotator", "model_a", "model_b",
        outcome.alias("outcome"),
        pl.when(pl.col("battle_id") != "").then("battle_id"),
        moments.alias("voted_at"), tags.alias("tags"), documents.alias("metadata"),
        pl.int_range(first_row, first_row + frame.height).alias("row"),
    )  # fmt: skip
    rows = faulty.arg_true().head(max_faults).to_list()
    faults = [(first_row + row, *next((b.field, b.detail(row)) for b in broken if b.rows[row])) for row in rows]
    return Checked(votes.filter(~faulty).cast(VOTE_COLUMNS), int(faulty.sum()), faults)


_CLOCKS = {"iso": "ISO 8601 such as 2026-01-31T12:00:00Z", "seconds": "seconds since 1970"}


def _unusable(name: Field, why: dict[int, str], height: int) -> _Broken:
    rows = pl.Series("rows", [False]).new_from_index(0, height)
    return _Broken(name, rows.scatter(list(why), True) if why else rows, lambda row: why[row])


def _bad_names(values: pl.Series, name: Field) -> _Broken:
    """Find the names that are none; a battle may go without."""
    optional = name == "battle_id"
    bad = {text: fault for text in values.unique() if (fault := name_fault(text or ""))}
    if optional:
        bad = {text: fault for text, fault in bad.items() if text}
    rows = values.is_in([text for text in bad if text is not None])
    rows = rows.fill_null(value=not optional)
    return _Broken(name, rows, lambda row: bad[values[row]])


def _winner_fault(word: str | None, schema: Schema) -> str:
    words = list(schema.winners)
    if not word:
        return "must not be blank"
    return f"unknown outcome {_shown(word)}; known are {', '.join(words)}"


def _parsed(values: pl.Series, parse: Callable[[str], object]) -> tuple[pl.Series, dict[int, str]]:
    """Return the parsed values (null where there is no text) and why some could not be parsed."""
    dtype = VOTE_COLUMNS[values.name]
    if values.null_count() == len(values):
        return pl.Series(values.name, [None], dtype).new_from_index(0, len(values)), {}
    parsed, why = list[object](), dict[int, str]()
    for row, text in enumerate(values):
        try:
            parsed.append(parse(text) if text else None)
        except ValueError as error:
            parsed.append(None)
            why[row] = str(error)
    return pl.Series(values.name, parsed, dtype), why


def _is_given(values: pl.Series) -> pl.Series:
    given = values.is_not_null()
    return given & (values != "") if values.dtype == pl.String else given


def _shown(value: object) -> str:
    text = str(value)
    return repr(text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "…")
