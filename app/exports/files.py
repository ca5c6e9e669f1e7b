"""Votes, annotators, a leaderboard or answers as a file that other programs read."""

import json
from dataclasses import dataclass
from pathlib import Path

import polars as pl
from sqlalchemy import Connection, text

from app.database.engine import Database
from app.database.interruption import Interruption
from app.exports import queries as store
from app.exports.schemas import ExportFilters, Format, What
from app.exports.service import read_exported
from app.leaderboard.row_files import ROW_FILES, frame_xlsx
from app.models.contestants import read_contestants
from app.models.service import find_model
from app.snapshots.service import find_snapshot
from app.snapshots.vote_sets import contestants_of, read_vote_set
from app.votes.arrays import any_ranking

_TIMESTAMPS = ("timestamp", "received_at")
_NUMBERS = ("ability", "se", "shadow_ability", "shadow_se", "probability_low")


@dataclass(frozen=True)
class Exported:
    """How many rows were written, and the set of votes on record (`pg_snapshot` text)."""

    rows: int
    vote_set: str


def write_export(
    database: Database,
    what: What,
    form: Format,
    filters: ExportFilters,
    path: Path,
    interruption: Interruption | None = None,
) -> Exported:
    """Write a file of one moment of the record. The server streams the rows; this process does not hold them.

    CSV is safe for spreadsheets: a text that it would read as a formula has an apostrophe in front. Annotators have the
    key that is stored.

    Raises NotFoundError, NoSnapshotError or NoSuchLeaderboardError.
    Raises InterruptedWorkError: by `interruption`; half a file may be there.
    """
    interruption = interruption or Interruption()
    with database.read() as conn, interruption.queries(conn):
        vote_set = read_vote_set(conn)
        if what == "leaderboard":
            return Exported(_write_leaderboard(conn, form, filters, path), vote_set)
        if what == "annotators":
            rows = store.annotators_query(standing=filters.standing)
        elif what == "answers":
            rows = store.answers_query(model_id=_model_of(conn, filters))
        else:
            seen = None if filters.snapshot is None else find_snapshot(conn, filters.snapshot).vote_set
            rows = store.votes_query(
                filters,
                model_id=_model_of(conn, filters),
                vote_set=seen,
                contestants=read_contestants(conn) if seen is None else contestants_of(conn, seen),
                ranked=any_ranking(conn),
                raw=form == "parquet",
            )
        if form != "parquet":
            with path.open("wb") as file:
                return Exported(store.copy_rows(conn, rows, "safe csv" if form == "csv" else "jsonl", file), vote_set)
        raw = path.with_name(f"{path.name}.csv")
        conn.execute(text("SET LOCAL DateStyle = 'ISO'"))
        try:
            with raw.open("wb") as file:
                count = store.copy_rows(conn, rows, "csv", file)
            _write_parquet(raw, path, interruption)
        finally:
            raw.unlink(missing_ok=True)
        return Exported(count, vote_set)


def _model_of(conn: Connection, filters: ExportFilters) -> int | None:
    return None if filters.model is None else find_model(conn, filters.model).model_id


def write_sheet(database: Database, what: What, filters: ExportFilters, path: Path) -> Exported:
    """Write a spreadsheet: times and tags are texts, which an import reads again.

    Raises BadInputError: there are more rows than a sheet has, or the extra `xlsx` is not installed.
    Raises NotFoundError, NoSnapshotError or NoSuchLeaderboardError.
    """
    typed = path.with_suffix(".parquet")
    exported = write_export(database, what, "parquet", filters, typed)
    frame = pl.read_parquet(typed)
    texts = [pl.col(pl.Datetime).dt.to_string("iso:strict")]
    texts += [pl.col("tags").list.join(";")] if "tags" in frame.columns else []
    path.write_bytes(frame_xlsx(frame.with_columns(texts)))
    return exported


def _write_parquet(raw: Path, path: Path, interruption: Interruption) -> None:
    """Convert CSV to Parquet with typed columns, a batch at a time; an interruption ends it at the next batch.

    Not with `collect(background=True)`: that cannot be ended, and where its result is no longer awaited, polars aborts
    the process.
    """
    frame = pl.scan_csv(raw, infer_schema=False, glob=False)
    columns = frame.collect_schema().names()
    times = [c for c in _TIMESTAMPS if c in columns]
    typed = [pl.col(c).str.to_datetime("%Y-%m-%d %H:%M:%S%.f", time_zone="UTC", time_unit="us") for c in times]
    typed += [pl.col(c).cast(pl.Float64) for c in _NUMBERS if c in columns]
    typed += [pl.col("votes").cast(pl.Int64)] if "votes" in columns else []
    typed += [pl.col("tags").str.json_decode(pl.List(pl.String))] if "tags" in columns else []

    def go_on(batch: pl.DataFrame) -> pl.DataFrame:
        interruption.wait(0)
        return batch

    frame.map_batches(go_on, streamable=True).with_columns(typed).sink_parquet(path)


def _write_leaderboard(conn: Connection, form: Format, filters: ExportFilters, path: Path) -> int:
    published = read_exported(conn, filters)
    rows, columns = published.rows(), published.columns()
    if form == "jsonl":
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    else:
        path.write_bytes(ROW_FILES[form](rows, columns))
    return len(rows)
