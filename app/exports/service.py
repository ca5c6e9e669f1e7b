"""What is on record, as files that other programs read."""

import json
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

import polars as pl
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection

from app.database.engine import Database
from app.database.ids import new_id
from app.errors import BadInputError, FieldError, NotFoundError
from app.exports import queries as store
from app.leaderboard.row_files import rows_csv, rows_parquet
from app.leaderboard.service import LeaderboardVersion, check_leaderboard, choose_leaderboard, read_published
from app.models.service import find_model
from app.snapshots.schemas import LeaderboardMethod
from app.snapshots.service import find_snapshot
from app.snapshots.vote_sets import read_vote_set

What = Literal["votes", "annotators", "leaderboard"]
Format = Literal["csv", "jsonl", "parquet"]

_FILTERS: dict[What, tuple[str, ...]] = {
    "votes": ("since", "until", "model", "snapshot"),
    "annotators": ("standing",),
    "leaderboard": ("snapshot", "method", "tag"),
}
_NUMBERS = ("ability", "se", "shadow_ability", "shadow_se", "probability_low")


@dataclass(frozen=True)
class Filters:
    """What of it is exported; see `check_filters` for which of them goes with what.

    Attributes
    ----------
    since, until : votes received from the one moment on and before the other.
    model : votes on this model.
    standing : annotators of this standing.
    snapshot : votes that this snapshot (id or number) was made of; its leaderboard.
    method, tag : which of the snapshot's leaderboards; no method for am-elo, no tag for the one of all votes.
    """

    since: datetime | None = None
    until: datetime | None = None
    model: str | None = None
    standing: str | None = None
    snapshot: str | None = None
    method: LeaderboardMethod | None = None
    tag: str | None = None


@dataclass(frozen=True)
class Exported:
    """What was written: how many rows, and of which set of votes (`pg_snapshot` text)."""

    rows: int
    vote_set: str


class Export(BaseModel):
    """A file that was asked for."""

    model_config = ConfigDict(frozen=True)

    id: UUID
    state: Literal["queued", "running", "done", "failed"]
    what: What
    format: Format
    options: dict[str, Any] = Field(description="The filters; `vote_set` names exactly the votes that were on record.")
    rows: int | None
    bytes: int | None
    detail: str | None = Field(description="Why it failed.")
    requested_by: str
    created_at: datetime
    finished_at: datetime | None


def request_export(conn: Connection, what: What, form: Format, filters: Filters, *, requested_by: str) -> UUID:
    """Put an export on record; a worker makes the file.

    Raises
    ------
    BadInputError
        A filter does not go with what is exported.
    NotFoundError
        There is no such snapshot, no such model, or no leaderboard of this method and tag.
    """
    check_filters(what, filters)
    if filters.method is not None or filters.tag is not None:
        board = _choose(conn, filters)
        check_leaderboard(conn, board.snapshot, board.method, tag=board.tag)
    if filters.snapshot is not None:
        find_snapshot(conn, filters.snapshot)
    if filters.model is not None:
        find_model(conn, filters.model)
    export_id = new_id()
    given = {name: value for name, value in asdict(filters).items() if value is not None}
    options = json.loads(json.dumps(given, default=_plain))
    values = {"what": what, "format": form, "options": options, "requested_by": requested_by}
    store.add_export(conn, export_id, values)
    return export_id


def check_filters(what: What, filters: Filters) -> None:
    """Check that every filter says something of what is exported.

    Raises
    ------
    BadInputError
    """
    given = [name for name, value in asdict(filters).items() if value is not None]
    foreign = tuple(
        FieldError(f"/filters/{name}", f"does not go with {what}") for name in given if name not in _FILTERS[what]
    )
    if foreign:
        named = ", ".join(error.pointer.removeprefix("/filters/") for error in foreign)
        raise BadInputError(f"{named}: no filter of {what}, which can be had by {', '.join(_FILTERS[what])}", foreign)


def find_export(conn: Connection, export_id: UUID) -> Export:
    """Return an export.

    Raises
    ------
    NotFoundError
    """
    row = store.get_export(conn, export_id)
    if row is None:
        raise NotFoundError(f"there is no export {export_id}")
    return Export(**row)


def filters_of(options: dict[str, Any]) -> Filters:
    """Return the filters that an export was asked for with."""
    given: dict[str, Any] = {field.name: options[field.name] for field in fields(Filters) if field.name in options}
    for name in {"since", "until"} & given.keys():
        given[name] = datetime.fromisoformat(given[name])
    return Filters(**given)


def write_export(database: Database, what: What, form: Format, filters: Filters, path: Path) -> Exported:
    """Write a file of what one moment of the record holds; rows are streamed by the server, not held here.

    CSV is made safe for spreadsheets: a text that would be taken for a formula has an apostrophe in front. Annotators
    are named by the key that is stored.

    Raises
    ------
    NotFoundError, NoSnapshotError, NoSuchLeaderboardError
    """
    with database.read() as conn:
        vote_set = read_vote_set(conn)
        if what == "leaderboard":
            return Exported(_write_leaderboard(conn, form, filters, path), vote_set)
        if what == "annotators":
            rows = store.annotators_query(standing=filters.standing)
        else:
            seen = None if filters.snapshot is None else find_snapshot(conn, filters.snapshot).vote_set
            model = None if filters.model is None else find_model(conn, filters.model).model_id
            rows = store.votes_query(since=filters.since, until=filters.until, model_id=model, vote_set=seen)
        if form != "parquet":
            with path.open("wb") as file:
                return Exported(store.copy_rows(conn, rows, "safe csv" if form == "csv" else "jsonl", file), vote_set)
        raw = path.with_name(f"{path.name}.csv")
        try:
            with raw.open("wb") as file:
                count = store.copy_rows(conn, rows, "csv", file)
            _write_parquet(raw, path)
        finally:
            raw.unlink(missing_ok=True)
        return Exported(count, vote_set)


def _write_parquet(raw: Path, path: Path) -> None:
    """Turn CSV into Parquet with the types that the columns have, a batch at a time."""
    frame = pl.scan_csv(raw, infer_schema=False, glob=False)
    columns = frame.collect_schema().names()
    moments = [c for c in ("timestamp", "received_at") if c in columns]
    typed = [pl.col(c).str.to_datetime("%Y-%m-%dT%H:%M:%S%.fZ", time_zone="UTC", time_unit="us") for c in moments]
    typed += [pl.col(c).cast(pl.Float64) for c in _NUMBERS if c in columns]
    typed += [pl.col("votes").cast(pl.Int64)] if "votes" in columns else []
    typed += [pl.col("tags").str.json_decode(pl.List(pl.String))] if "tags" in columns else []
    frame.with_columns(typed).sink_parquet(path)


def _write_leaderboard(conn: Connection, form: Format, filters: Filters, path: Path) -> int:
    board = read_published(conn, _choose(conn, filters))
    rows, columns = board.rows(), board.columns()
    if form == "jsonl":
        path.write_text("".join(json.dumps(row, ensure_ascii=False, default=_plain) + "\n" for row in rows))
    else:
        path.write_bytes(rows_csv(rows, columns) if form == "csv" else rows_parquet(rows, columns))
    return len(rows)


def _choose(conn: Connection, filters: Filters) -> LeaderboardVersion:
    return choose_leaderboard(conn, method=filters.method or "am-elo", tag=filters.tag, snapshot=filters.snapshot)


def _plain(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
