"""Votes on record as columns, for comparison with the votes of a file."""

import io
from collections.abc import Iterable, Iterator, Sequence
from typing import cast
from uuid import UUID

import polars as pl
import psycopg
from sqlalchemy import Connection, text

from app.snapshots.vote_sets import is_retracted_sql

_PIECE_BYTES = 8 << 20
_COLUMNS = {
    "vote_id": pl.String,
    "annotator_id": pl.Int32,
    "model_a_id": pl.Int32,
    "model_b_id": pl.Int32,
    "outcome": pl.Int8,
    "voted_at": pl.Int64,
    "has_battle": pl.String,
    "import_id": pl.String,
    "criterion": pl.String,
    "ranking": pl.String,
}
_SAID = ("vote_id", "model_a_id", "model_b_id", "outcome", "criterion", "ranking")
_MANY = 500
"""Of more annotators the votes are read in the order of the table. PostgreSQL takes those of a subquery for 200, and
would read one after the other, which takes ten times as long; it has no index on a sum."""
_OF_ANNOTATORS = """
COPY (
    SELECT v.id, v.annotator_id, v.model_a_id, v.model_b_id, v.outcome,
           (extract(epoch FROM v.voted_at) * 1000000)::bigint,
           coalesce(v.battle_id, v.criterion_battle_id) IS NOT NULL, v.import_id, v.criterion, v.ranking
    FROM votes AS v
    WHERE v.annotator_id{apart} IN (SELECT unnest(%(annotators)s::integer[]))
      AND (v.import_id IS NULL OR v.import_id <> ALL(%(without)s::uuid[]))
      AND (v.annotator_id::bigint * 7919 + least(v.model_a_id, v.model_b_id) * 104729::bigint
           + greatest(v.model_a_id, v.model_b_id) * 1299709::bigint) %% %(one_in)s = 0
) TO STDOUT (FORMAT csv)
"""
_BY_ID = text(
    """
    SELECT v.id::text AS vote_id, v.model_a_id, v.model_b_id, v.outcome, v.criterion, v.ranking::text,
           {retracted} AS retracted
    FROM votes AS v WHERE v.id = ANY(CAST(:ids AS uuid[]))
    """.replace("{retracted}", is_retracted_sql("v.id"))
)


def any_vote_on_record(conn: Connection) -> bool:
    """Whether there is any vote on record."""
    return bool(conn.execute(text("SELECT EXISTS (SELECT FROM votes)")).scalar_one())


def in_sample(one_in: int) -> pl.Expr:
    """Mark the votes of every n-th combination of annotator and models, as `votes_of_annotators` picks them."""
    a, b = pl.col("model_a_id").cast(pl.Int64), pl.col("model_b_id").cast(pl.Int64)
    pair = pl.min_horizontal(a, b) * 104_729 + pl.max_horizontal(a, b) * 1_299_709
    return (pl.col("annotator_id").cast(pl.Int64) * 7_919 + pair) % one_in == 0


def votes_of_annotators(
    conn: Connection, annotators: Sequence[int], *, without_imports: Iterable[UUID], one_in: int = 1
) -> Iterator[pl.DataFrame]:
    """Yield the votes of these annotators, retracted ones too, without those of some imports, in pieces.

    `one_in` picks the votes of every n-th combination of annotator and models, as `in_sample` does. Columns `vote_id,
    annotator_id, model_a_id, model_b_id, outcome, voted_at, has_battle, import_id,
    criterion, ranking`.
    """
    driver = cast("psycopg.Connection", conn.connection.driver_connection)
    values = {"annotators": list(annotators), "without": list(without_imports), "one_in": one_in}
    statement = _OF_ANNOTATORS.replace("{apart}", " + 0" if len(annotators) > _MANY else "")
    held = bytearray()
    with driver.cursor() as cursor, cursor.copy(statement, values) as copy:
        for message in copy:
            held += message
            if len(held) >= _PIECE_BYTES:
                yield _parsed(bytes(held))  # every message ends with a row
                held.clear()
    if held:
        yield _parsed(bytes(held))


def votes_by_id(conn: Connection, vote_ids: Sequence[str]) -> pl.DataFrame:
    """Return those on record: `vote_id, model_a_id, model_b_id, outcome, criterion, ranking, retracted`."""
    rows = conn.execute(_BY_ID, {"ids": list(vote_ids)}).all()
    schema = {name: _COLUMNS[name] for name in _SAID}
    return pl.DataFrame(rows, {**schema, "retracted": pl.Boolean}, orient="row")


def _parsed(rows: bytes) -> pl.DataFrame:
    frame = pl.read_csv(io.BytesIO(rows), has_header=False, schema=_COLUMNS)
    at = pl.col("voted_at").cast(pl.Datetime("us")).dt.replace_time_zone("UTC")
    return frame.with_columns(voted_at=at, has_battle=pl.col("has_battle") == "t")
