"""An import whose file is uploaded in pieces; a job runner imports the complete file."""

import hashlib
from dataclasses import asdict
from pathlib import PurePath
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, RowMapping

from app.database.engine import Database
from app.database.file_chunks import add_chunk, drop_chunks, has_chunks, move_chunks
from app.database.ids import new_id
from app.database.notices import notify
from app.errors import BadInputError
from app.imports import queries as store
from app.imports.service import ImportOptions

MAX_FILE_NAME_LENGTH = 200
KINDS = ("csv", "tsv", "json", "jsonl", "parquet")
"""What can be uploaded; a spreadsheet is unpacked as a whole in memory, so that only the command line reads it."""
_COMPRESSED = {b"\x1f\x8b": ".gz", b"\x28\xb5\x2f\xfd": ".zst"}


def kind_of_name(file_name: str) -> str | None:
    """Return csv, tsv, json, jsonl or parquet, by the ending of the name; None for another."""
    suffixes = [suffix.lower() for suffix in PurePath(file_name).suffixes if suffix.lower() not in (".gz", ".zst")]
    kind = suffixes[-1][1:] if suffixes else ""
    return kind if kind in KINDS else None


class Upload:
    """Receives a file; owns its transactions, which are short. Only one thread at a time may use it.

    `kind`: one of `KINDS`; compression is detected from the first bytes.
    """

    def __init__(
        self, database: Database, *, file_name: str, kind: str, options: ImportOptions, requested_by: str
    ) -> None:
        self._database = database
        self._id = new_id()
        self._name = file_name
        self._kind = kind
        self._options = options
        self._requested_by = requested_by
        self._hash = hashlib.sha256()
        self._bytes = self._pieces = 0
        self._suffix = f".{kind}"

    def write(self, content: bytes) -> None:
        """Store the next piece, best of about a megabyte."""
        if not self._pieces and self._kind != "parquet":
            endings = (ending for magic, ending in _COMPRESSED.items() if content.startswith(magic))
            self._suffix += next(endings, "")
        self._hash.update(content)
        self._bytes += len(content)
        with self._database.begin() as conn:
            add_chunk(conn, self._id, self._pieces, content)
        self._pieces += 1

    def finish(self) -> tuple[UUID, bool]:
        """Queue the complete file; return the id of the import and whether there is work to do.

        A file with the same SHA-256 as an earlier one is not kept unless `again`: the earlier import is returned. If
        that was interrupted, it continues with this file.

        Raises BadInputError: nothing was received.
        """
        if not self._bytes:
            raise BadInputError("the body is empty")
        sha256 = self._hash.digest()
        with self._database.begin() as conn:
            store.lock_file(conn, sha256)
            earlier = None if self._options.dry_run else store.find_import(conn, sha256, to_change=True)
            if earlier is None or (earlier["state"] == "done" and self._options.again):
                if earlier is not None:
                    self._options = self._options.known_again()
                self._add(conn, sha256)
                notify(conn, "files")
                return self._id, True
            if earlier["state"] != "done":
                self._take_on(conn, earlier)
                notify(conn, "files")
            drop_chunks(conn, self._id)
            return earlier["id"], earlier["state"] != "done"

    def abandon(self) -> None:
        """Delete the pieces received, unless the file was queued."""
        with self._database.begin() as conn:
            if store.get_import(conn, self._id) is None:
                drop_chunks(conn, self._id)

    def _add(self, conn: Connection, sha256: bytes) -> None:
        """Add the import. Only complete files are added, because imports are never deleted."""
        options = {**asdict(self._options), "suffix": self._suffix}
        values = {"file_name": self._name, "sha256": sha256, "bytes": self._bytes, "options": options}
        store.add_import(conn, self._id, {**values, "state": "queued", "requested_by": self._requested_by})

    def _take_on(self, conn: Connection, earlier: RowMapping) -> None:
        changes: dict[str, Any] = {}
        if not has_chunks(conn, earlier["id"]):
            move_chunks(conn, self._id, to=earlier["id"])
            changes |= {"bytes": self._bytes, "options": {**earlier["options"], "suffix": self._suffix}}
        if earlier["state"] == "failed":
            changes |= {"state": "queued", "detail": None, "finished_at": None}
        if changes:
            store.change_import(conn, earlier["id"], **changes)
