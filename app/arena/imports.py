from collections.abc import Callable, Iterator
from dataclasses import dataclass
from uuid import UUID

import polars as pl
from sqlalchemy import Connection

from app.arena.files import VoteFile, find_places
from app.arena.votes import VoteReceipt, write_rows
from app.errors import BadInputError, Fault
from app.store import imports as store
from app.store.ids import new_id
from app.store.names import resolve_annotators, resolve_models
from app.store.votes import VoteRow

_CHUNK = 20_000
_MAX_CONFLICTS_LISTED = 1_000
_COUNTS = ("rows", "created", "duplicates", "conflicts", "rejected")


@dataclass(frozen=True)
class ImportReceipt:
    """What became of a file.

    Attributes
    ----------
    import_id : the import on record; for a file that was imported before, the earlier one
    rows : records in the file
    created, duplicates, conflicts, rejected : how many of them were recorded, were on record already, contradict
        the record, or are no votes
    already_imported : whether nothing was done because the same file had been imported; the figures are that import's
    conflict_places : the first 1,000 conflicts, their place in the file and what they contradict
    """

    import_id: UUID
    rows: int
    created: int
    duplicates: int
    conflicts: int
    rejected: int
    already_imported: bool = False
    conflict_places: tuple[Fault, ...] = ()


def import_votes(
    conn: Connection,
    file: VoteFile,
    *,
    sha256: bytes,
    again: bool = False,
    skip_invalid: bool = False,
    progress: Callable[[float], None] | None = None,
) -> ImportReceipt:
    """Record every vote of a file, all of them in the caller's transaction: killed half-way, nothing is left.

    A file that was imported before, told by its SHA-256, is left alone unless `again`. A row for a (battle,
    annotator) that is on record already is a duplicate or, with another verdict, a conflict; both leave the record
    as it was, and conflicts are listed. Two imports of the same file take turns. Needs a READ COMMITTED transaction.

    Parameters
    ----------
    sha256 : of the file's bytes.
    skip_invalid : leave out the records that are no votes instead of refusing the file.
    progress : called with the share of the votes that has been written, 0 to 1.

    Raises
    ------
    BadInputError
        Some records are no votes, or none is.
    """
    if file.rejected and not skip_invalid:
        raise BadInputError(
            f"{file.path.name}: {file.rejected:,} of {file.rows_read:,} records are not valid votes",
            tuple(file.faults),
            n_faults=file.rejected,
        )
    store.lock_file(conn, sha256)
    earlier = None if again else store.find_import(conn, sha256)
    if earlier is not None:
        return ImportReceipt(import_id=earlier["id"], already_imported=True, **earlier["counts"])
    if file.frame.is_empty():
        raise BadInputError(f"{file.path.name}: no record is a valid vote", tuple(file.faults), n_faults=file.rejected)
    import_id = new_id()
    store.add_import(conn, import_id, file.path.name, sha256)
    not_added = _write(conn, file.frame, import_id, progress)
    conflicts = {row: receipt for row, receipt in not_added.items() if receipt.status == "conflict"}
    receipt = ImportReceipt(
        import_id=import_id,
        rows=file.rows_read,
        created=file.frame.height - len(not_added),
        duplicates=len(not_added) - len(conflicts),
        conflicts=len(conflicts),
        rejected=file.rejected,
        conflict_places=_placed(file, conflicts),
    )
    store.finish_import(conn, import_id, {name: getattr(receipt, name) for name in _COUNTS})
    return receipt


def _write(
    conn: Connection, frame: pl.DataFrame, import_id: UUID, progress: Callable[[float], None] | None
) -> dict[int, VoteReceipt]:
    """Write the votes; return, by the record's number, the receipts of those that were not added."""
    not_added: dict[int, VoteReceipt] = {}
    written = 0
    for rows in _chunks(conn, frame):
        refused = write_rows(conn, list(rows.values()), import_id=import_id)
        if refused:
            not_added |= {record: refused[row.id] for record, row in rows.items() if row.id in refused}
        written += len(rows)
        if progress:
            progress(written / frame.height)
    return not_added


def _chunks(conn: Connection, frame: pl.DataFrame) -> Iterator[dict[int, VoteRow]]:
    # All names at once and in order: chunk by chunk, two imports could each wait for a name of the other's.
    names = pl.concat([frame["model_a"], frame["model_b"].alias("model_a")]).unique().to_list()
    models = resolve_models(conn, names)
    annotators = resolve_annotators(conn, frame["annotator"].unique().to_list())
    columns = ("row", "annotator", "model_a", "model_b", "outcome", "battle_id", "voted_at", "tags", "metadata")
    for part in frame.select(columns).iter_slices(_CHUNK):
        rows: dict[int, VoteRow] = {}
        for record, annotator, model_a, model_b, outcome, battle_id, voted_at, tags, metadata in part.iter_rows():
            rows[record] = VoteRow(
                new_id(),
                annotators[annotator],
                models[model_a],
                models[model_b],
                outcome,
                battle_id,
                voted_at,
                tags or (),
                metadata,
            )
        yield rows


def _placed(file: VoteFile, conflicts: dict[int, VoteReceipt]) -> tuple[Fault, ...]:
    first = sorted(conflicts)[:_MAX_CONFLICTS_LISTED]
    places = find_places(file, first)
    return tuple(Fault(places[record], f"{conflicts[record].detail}: vote {conflicts[record].id}") for record in first)
