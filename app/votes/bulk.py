"""Votes of imports: tens of thousands at a time, as columns, through COPY."""

import secrets
import time
from uuid import UUID

import numpy as np
import polars as pl
import psycopg
from sqlalchemy import Connection, text

from app.database.copying import copy_into
from app.votes.queries import VoteRow

_OWN = (
    "id", "annotator_id", "model_a_id", "model_b_id", "outcome", "voted_at", "metadata", "features", "criterion",
    "ranking", "prompt",
)  # fmt: skip
COLUMNS = (*_OWN, "record", "battle_id", "tags")

_CREATE = text(
    f"""
    CREATE TEMPORARY TABLE loading ON COMMIT DROP AS
    SELECT {", ".join(_OWN)}, 0::bigint AS record, battle_id, tags FROM votes WITH NO DATA
    """  # noqa: S608  only this module's own words
)
_DIRECT = (*_OWN, "battle_id", "tags", "criterion_battle_id", "import_id")
_INSERT = text(
    f"""
    INSERT INTO votes ({", ".join(_DIRECT)})
    SELECT {", ".join(_OWN)}, CASE WHEN criterion IS NULL THEN battle_id END, coalesce(tags, '{{}}'),
           CASE WHEN criterion IS NOT NULL THEN battle_id END, :import_id
    FROM loading ORDER BY loading.battle_id COLLATE "C", annotator_id, criterion COLLATE "C" NULLS FIRST, record
    ON CONFLICT DO NOTHING
    """  # noqa: S608  as above
)
_LEFT_OUT = text(
    """
    SELECT record, id, annotator_id, model_a_id, model_b_id, outcome, battle_id, voted_at, coalesce(tags, '{}'),
           metadata::text, features::text, NULL, criterion, 0, ranking::text, prompt
    FROM loading WHERE NOT EXISTS (SELECT FROM votes WHERE votes.id = loading.id) ORDER BY record
    """
)


def load_votes(
    conn: Connection, votes: pl.DataFrame, *, import_id: UUID, expect_new: bool
) -> tuple[int, list[tuple[int, VoteRow]]]:
    """Add votes. Return how many were added, and the votes that were not, with their record numbers, in that order.

    A vote is left out whose annotator has voted on its battle by its criterion before.

    Parameters
    ----------
    votes : columns `record, annotator_id, model_a_id, model_b_id, outcome, battle_id, voted_at, tags, metadata,
        features, criterion, ranking, prompt`. Tags are lists of text, prompts keys, metadata, features and rankings
        JSON text. The last eight may be null.
    expect_new : assume first that no battle is on record, which is twice as fast if it is true.

    Needs a READ COMMITTED transaction, and may be called once in it.
    """
    votes = votes.with_columns(pl.Series("id", _new_ids(votes.height), pl.String))
    # All writers insert battles in this order (see `record_votes`), so that they wait for each other instead of
    # deadlocking. Of two records with one key the earlier one comes first and is added.
    without = not votes["battle_id"].count()
    order = ["annotator_id"] if without else ["battle_id", "annotator_id", "criterion", "record"]
    votes = votes.sort(order)  # without battles, so that each page of the index of annotators is visited once
    if (expect_new or without) and _add_new(conn, votes, import_id):
        return votes.height, []
    conn.execute(_CREATE)
    copy_into(conn, "loading", _written(votes).select(COLUMNS))
    added = conn.execute(_INSERT, {"import_id": import_id}).rowcount
    if added == votes.height:
        return added, []
    return added, [(record, VoteRow(*vote)) for record, *vote in conn.execute(_LEFT_OUT)]


def _add_new(conn: Connection, votes: pl.DataFrame, import_id: UUID) -> bool:
    """Add the votes straight to the table, unless one of them repeats a battle. Return whether they were added."""
    battle, overall = pl.col("battle_id"), pl.col("criterion").is_null()
    whole = votes.with_columns(
        pl.when(overall).then(battle),
        criterion_battle_id=pl.when(~overall).then(battle),
        import_id=pl.lit(str(import_id)),
        tags=pl.col("tags").fill_null([]),
    )
    try:
        with conn.begin_nested():
            copy_into(conn, "votes", _written(whole).select(_DIRECT))
    except psycopg.errors.UniqueViolation:
        return False
    return True


def _written(votes: pl.DataFrame) -> pl.DataFrame:
    """Return the votes with tags and times in PostgreSQL's text forms."""
    return votes.with_columns(_array_text(votes["tags"]), voted_at=pl.col("voted_at").dt.to_string("iso:strict"))


def _new_ids(count: int) -> list[str]:
    """Return ascending UUIDv7s of this millisecond: a 20-bit counter, then 54 random bits (RFC 9562, 6.2)."""
    number = np.arange(count, dtype=np.uint64)
    parts = np.frombuffer(secrets.token_bytes(8 * count), ">u8").astype(np.uint64)
    milliseconds = np.uint64(time.time_ns() // 1_000_000)
    high = (milliseconds << np.uint64(16)) | np.uint64(0x7000) | ((number >> np.uint64(8)) & np.uint64(0xFFF))
    low = np.uint64(1 << 63) | ((number & np.uint64(0xFF)) << np.uint64(54)) | (parts >> np.uint64(10))
    digits = np.stack([high, low], axis=1).astype(">u8").tobytes().hex()
    return [digits[i : i + 32] for i in range(0, 32 * count, 32)]


def _array_text(tags: pl.Series) -> pl.Series:
    """Return PostgreSQL's text form of arrays."""
    if not tags.list.len().sum():
        empty = pl.when(pl.col("tags").is_not_null()).then(pl.lit("{}"))
        return tags.to_frame().select(empty.alias("tags")).to_series()
    items = pl.element().str.replace_all("\\", "\\\\", literal=True).str.replace_all('"', '\\"', literal=True)
    quoted = pl.concat_str(pl.lit('"'), items, pl.lit('"'))
    joined = pl.concat_str(pl.lit("{"), pl.col("tags").list.eval(quoted).list.join(","), pl.lit("}"))
    return tags.to_frame().select(joined).to_series().alias("tags")
