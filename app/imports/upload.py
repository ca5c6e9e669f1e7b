"""An import whose file is uploaded in pieces; a job runner imports the complete file."""

import hashlib
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
from app.imports.service import ImportOptions, open_import

MAX_FILE_NAME_LENGTH = 200
KINDS = ("csv", "tsv", "txt", "json", "jsonl", "parquet", "zip")
"""What can be uploaded; a spreadsheet is unpacked as a whole in memory, so that only the command line reads it."""


def kind_of_name(file_name: str) -> str | None:
    """Return one of `KINDS`, by the ending of the name; None for another. A compressed text may have any name."""
    suffixes = [suffix.lower() for suffix in PurePath(file_name).suffixes]
    plain = [suffix for suffix in suffixes if suffix not in (".gz", ".zst")]
    kind = plain[-1][1:] if plain else ""
    return kind if kind in KINDS else "txt" if len(plain) < len(suffixes) else None


class Upload:
    """Receives a file; owns its transactions, which are short. Only one thread at a time may use it.

    `kind`: one of `KINDS`; compression is detected when the file is read.
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
        with self._database.begin() as conn:
            found = open_import(
                conn, self._id, self._hash.digest(), self._options, suffix=self._suffix, file_name=self._name,
                bytes=self._bytes, state="queued", requested_by=self._requested_by,
            )  # fmt: skip
            has_work = found["state"] != "done"
            if found["id"] != self._id:
                if has_work:
                    self._take_on(conn, found)
                drop_chunks(conn, self._id)
            if has_work:
                notify(conn, "files")
        return found["id"], has_work

    def abandon(self) -> None:
        """Delete the pieces received, unless the file was queued."""
        with self._database.begin() as conn:
            if store.get_import(conn, self._id) is None:
                drop_chunks(conn, self._id)

    def _take_on(self, conn: Connection, earlier: RowMapping) -> None:
        changes: dict[str, Any] = {}
        if not has_chunks(conn, earlier["id"]):
            move_chunks(conn, self._id, to=earlier["id"])
            changes |= {"bytes": self._bytes, "options": {**earlier["options"], "suffix": self._suffix}}
        if earlier["state"] == "failed":
            changes |= {"state": "queued", "detail": None, "finished_at": None}
        if changes:
            store.change_import(conn, earlier["id"], **changes)
