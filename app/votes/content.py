"""Votes on record as columns, for comparison with the votes of a file."""

import io
from collections.abc import Iterable, Sequence
from uuid import UUID

import polars as pl
from sqlalchemy import Connection, text

from app.database.copying import copy_into
from app.database.engine import driver_of
from app.snapshots.vote_sets import is_retracted_sql

_SAID = {
    "vote_id": pl.String, "model_a_id": pl.Int32, "model_b_id": pl.Int32, "outcome": pl.Int8, "criterion": pl.String,
    "ranking": pl.String,
}  # fmt: skip
_FOUND = {
    "key": pl.Int64, "vote_id": pl.String, "voted_at": pl.Int64, "has_battle": pl.String, "import_id": pl.String,
}  # fmt: skip
_CREATE = text(
    """
    CREATE TEMPORARY TABLE said (
        key bigint, annotator_id integer, low_id integer, high_id integer, outcome smallint, criterion text,
        ranking jsonb
    ) ON COMMIT DROP
    """
)
_SAYING = """
COPY (
    SELECT s.key, v.id, (extract(epoch FROM v.voted_at) * 1000000)::bigint,
           coalesce(v.battle_id, v.criterion_battle_id) IS NOT NULL, v.import_id
    FROM said AS s JOIN votes AS v
      ON v.annotator_id = s.annotator_id
     AND least(v.model_a_id, v.model_b_id) = s.low_id AND greatest(v.model_a_id, v.model_b_id) = s.high_id
     AND CASE WHEN v.model_a_id > v.model_b_id AND v.outcome <= 1 THEN 1 - v.outcome ELSE v.outcome END = s.outcome
     AND v.criterion IS NOT DISTINCT FROM s.criterion
     AND s.ranking IS NOT DISTINCT FROM (
         SELECT jsonb_agg((SELECT jsonb_agg(model ORDER BY model) FROM jsonb_array_elements(members) AS model)
                          ORDER BY place)
         FROM jsonb_array_elements(v.ranking) WITH ORDINALITY AS r(members, place)
     )
    WHERE (v.import_id IS NULL OR v.import_id <> ALL(%(without)s::uuid[])) {of}
) TO STDOUT (FORMAT csv)
"""
_OF_NO_BATTLE = "AND v.battle_id IS NULL AND v.criterion_battle_id IS NULL"
_BY_ID = text(
    """
    SELECT v.id::text AS vote_id, v.model_a_id, v.model_b_id, v.outcome, v.criterion, v.ranking::text,
           {retracted} AS retracted
    FROM votes AS v WHERE v.id = ANY(CAST(:ids AS uuid[]))
    """.replace("{retracted}", is_retracted_sql("v.id"))
)


def votes_that_say(
    conn: Connection, said: pl.DataFrame, *, without_imports: Iterable[UUID], of_no_battle: bool = False
) -> pl.DataFrame:
    """Return the votes on record that say one of these things, retracted ones too, without those of some imports.

    `said`: `key` and the columns of `what_votes_say`, of which criterion and ranking may be missing; no key twice.
    `of_no_battle`: only those on no battle.

    Columns `key, vote_id, voted_at, has_battle, import_id`. Needs a transaction that may write, and may be called once
    in it.
    """
    conn.execute(_CREATE)
    copy_into(conn, "said", said)
    conn.execute(text("ANALYZE said"))
    # PostgreSQL has no statistics of the joined expressions, and would sort all votes: four times as long as to hash.
    conn.execute(text("SET LOCAL enable_mergejoin = off"))
    rows, statement = io.BytesIO(), _SAYING.format(of=_OF_NO_BATTLE if of_no_battle else "")
    with driver_of(conn).cursor() as cursor, cursor.copy(statement, {"without": list(without_imports)}) as copy:
        rows.writelines(copy)
    at = pl.col("voted_at").cast(pl.Datetime("us")).dt.replace_time_zone("UTC")
    frame = pl.read_csv(rows.getvalue(), has_header=False, schema=_FOUND, raise_if_empty=False)
    return frame.with_columns(voted_at=at, has_battle=pl.col("has_battle") == "t")


def votes_by_id(conn: Connection, vote_ids: Sequence[str]) -> pl.DataFrame:
    """Return those on record: `vote_id, model_a_id, model_b_id, outcome, criterion, ranking, retracted`."""
    rows = conn.execute(_BY_ID, {"ids": list(vote_ids)}).all()
    return pl.DataFrame(rows, {**_SAID, "retracted": pl.Boolean}, orient="row")
