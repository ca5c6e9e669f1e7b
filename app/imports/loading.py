"""The second reading of an import: stores the votes chunk by chunk, each with the number of records done.

Votes on battles that have a vote of the same annotator follow the rules for sent votes.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from uuid import UUID

import polars as pl
import structlog
from sqlalchemy import Connection, RowMapping

from app.database.engine import Database
from app.database.errors import DatabaseContendedError
from app.database.file_chunks import drop_chunks
from app.database.leases import LeasedJob
from app.imports import queries as store
from app.imports.formats.reading import VoteReader
from app.imports.held import CLAIMS
from app.imports.names import RecordFault, number_votes
from app.imports.recognition import number_votes_of_file, recognise_again
from app.imports.service import MAX_FAULTS_STORED, OF_THE_RECORD, ImportOptions
from app.imports.survey import Survey, fault_row
from app.refits.schedule import IMPORT_LEASE
from app.votes.bulk import load_votes
from app.votes.queries import VoteRow
from app.votes.repeats import receive_repeated

log = structlog.get_logger()

CHUNK_BYTES = 16 << 20
"""Votes that are stored at once. Each chunk visits most pages of two indexes: few large ones are faster."""

_ATTEMPTS = 10
_PAUSE = 0.1  # seconds until a process that waits asks again


@contextmanager
def import_turn(database: Database, seconds: float, waiting: Callable[[], object] | None = None) -> Iterator[bool]:
    """Have the turn during the block.

    If another import has it, `waiting` is called now and again until the turn is free; without it the block gets False.

    Two files of the same votes that are imported at the same moment would otherwise both be recorded: each is compared
    before the other's votes are there. If the process dies, the turn is free after `seconds`.
    """
    turn = LeasedJob(database, IMPORT_LEASE, seconds, one_off=True)
    while turn.claim(lambda _: True) is None:
        if waiting is None:
            yield False
            return
        waiting()
        time.sleep(_PAUSE)
    with turn:
        yield True


class ImportLoad:
    """Continues an import from the records done so far until it is finished.

    The votes of a chunk, its errors and the number of records done commit together, under a lock on the import's row. A
    process can be killed at any point: no vote is lost or stored twice, and two processes with the same file can share
    the work. New names are added in a transaction of their own, so that other votes on a new model need not wait for
    the chunk.
    """

    def __init__(
        self,
        database: Database,
        import_id: UUID,
        *,
        progress: Callable[[float], None] | None = None,
    ) -> None:
        self._database = database
        self._id = import_id
        self._progress = progress
        self._expect_new = True

    def run(self, reader: VoteReader, options: ImportOptions, checked: tuple[Survey, pl.DataFrame] | None) -> None:
        """Store the votes and finish the import.

        `checked`: what the file has, and the votes to leave out because they are on record; see `Recognised.left_out`.
        None if the import has begun and goes on.
        """
        if checked is None:
            recorded = recognise_again(self._database, reader, self._id, new_rows_only=options.new_rows_only)
        else:
            survey, recorded = checked
            self._begin(survey)
        with self._database.read() as conn:
            done = self._row(conn)["rows_done"]
        with ThreadPoolExecutor(1) as ahead:  # reads the next chunk while PostgreSQL takes this one
            chunks = _chunks(reader, done)
            waiting = ahead.submit(next, chunks, None)
            while (chunk := waiting.result()) is not None:
                waiting = ahead.submit(next, chunks, None)
                votes, end = chunk
                self._load(votes, votes.join(recorded, on="number", maintain_order="left"), end)
        self._finish(reader)

    def _begin(self, survey: Survey) -> None:
        """Store the counts of the survey and its errors, unless they are stored already or the import has ended."""
        counts = survey.counts | dict.fromkeys(("created", "replaced", *OF_THE_RECORD), 0)
        with self._database.begin() as conn:
            row = store.lock_import(conn, self._id)
            if row["rows_total"] is None and row["state"] == "running":
                store.begin_import(conn, self._id, rows_total=survey.rows_read, counts=counts, notes=survey.notes)
                store.add_faults(conn, self._id, survey.fault_rows)

    def _load(self, votes: pl.DataFrame, recorded: pl.DataFrame, end: int) -> None:
        """Store the votes of a chunk that ends before record `end`."""
        for attempt in range(_ATTEMPTS):
            try:
                return self._load_once(votes, recorded, end)
            except DatabaseContendedError:
                if attempt == _ATTEMPTS - 1:
                    raise
                log.info("import_chunk_repeated", import_id=str(self._id))
        raise AssertionError

    def _load_once(self, votes: pl.DataFrame, recorded: pl.DataFrame, end: int) -> None:
        new = votes.join(recorded, on="number", how="anti", maintain_order="left") if recorded.height else votes
        with self._database.begin() as conn:
            new, unknown = number_votes(conn, new)
        with self._locked() as (conn, row):
            done, total = row["rows_done"], row["rows_total"]
            if row["state"] == "running" and done < end:
                later = pl.col("row") >= done
                unknown = [fault for fault in unknown if fault[0] >= done]
                self._record(conn, row, new.filter(later), recorded.filter(later), unknown, end)
                done = end
        if self._progress:
            self._progress(min(1.0, done / max(1, total)))

    def _record(
        self,
        conn: Connection,
        row: RowMapping,
        votes: pl.DataFrame,
        recorded: pl.DataFrame,
        unknown: list[RecordFault],
        end: int,
    ) -> None:
        votes = votes.rename({"row": "record"})
        created, left_out = load_votes(conn, votes, import_id=self._id, expect_new=self._expect_new)
        self._expect_new = not left_out
        repeats, conflicts = _receive_left_out(conn, left_out, import_id=self._id)
        counts = Counter(row["counts"])  # an import from an earlier version lacks some counts
        counts.pop(CLAIMS, None)
        counts.update(repeats)
        counts["created"] += created
        agreeing, differing = recorded.filter(pl.col("detail").is_null()), recorded.drop_nulls("detail")
        conflicts += differing.select("row", "detail").iter_rows()
        counts["duplicates"] += agreeing.height
        counts["retracted"] += int(agreeing["retracted"].sum())
        counts["conflicts"] += len(conflicts)
        counts["rejected"] += len(unknown)
        store.change_import(conn, self._id, rows_done=end, counts=counts)
        faults = [fault_row(record, "", detail) for record, detail in unknown]
        faults += [fault_row(record, "", detail, "conflict") for record, detail in conflicts]
        if faults:
            room = max(0, MAX_FAULTS_STORED - store.count_faults(conn, self._id))
            store.add_faults(conn, self._id, faults[:room])

    def _finish(self, reader: VoteReader) -> None:
        with self._database.read() as conn:
            places = reader.places(store.unplaced_records(conn, self._id))
        with self._locked() as (conn, row):
            if row["state"] == "running":
                store.set_places(conn, self._id, places)
                store.end_import(conn, self._id, "done")
                drop_chunks(conn, self._id)

    @contextmanager
    def _locked(self) -> Iterator[tuple[Connection, RowMapping]]:
        with self._database.begin() as conn:
            yield conn, store.lock_import(conn, self._id)

    def _row(self, conn: Connection) -> RowMapping:
        row = store.get_import(conn, self._id)
        assert row is not None  # noqa: S101  an import that runs is never dropped
        return row


def _chunks(reader: VoteReader, done: int) -> Iterator[tuple[pl.DataFrame, int]]:
    """Yield the votes of the records from `done` on, with their `number`, and the record before which a chunk ends."""
    held, held_bytes, end, n_votes = list[pl.DataFrame](), 0, 0, 0
    for batch in reader.batches(max_faults=0):
        end += batch.records
        if end > done:
            held.append(number_votes_of_file(batch.votes, n_votes))
            held_bytes += int(batch.votes.estimated_size())
        n_votes += batch.votes.height
        if held_bytes >= CHUNK_BYTES:
            yield pl.concat(held), end
            held, held_bytes = [], 0
    if held:
        yield pl.concat(held), end


def _receive_left_out(
    conn: Connection, left_out: Sequence[tuple[int, VoteRow]], *, import_id: UUID
) -> tuple[Counter[str], list[tuple[int, str]]]:
    """Resolve the votes that `load_votes` left out in this transaction.

    A retracted vote does not keep its battle. Where the policy says so, earlier votes are replaced. Returns how many
    were created after all, replaced an earlier vote, or are duplicates; and the conflicts: the record's number, and
    how it contradicts a stored vote.
    """
    counts, conflicts = Counter[str](), list[tuple[int, str]]()
    receipts = receive_repeated(conn, [row for _, row in left_out], import_id=import_id) if left_out else {}
    for record, row in left_out:
        receipt = receipts[row.id]
        counts["created"] += receipt.status == "created"
        counts["replaced"] += receipt.replaces is not None
        counts["duplicates"] += receipt.status == "duplicate"
        if receipt.status == "conflict":
            conflicts.append((record, f"{receipt.detail}: vote {receipt.id}"))
    return counts, conflicts
