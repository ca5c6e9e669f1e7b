"""The file of a backup: a zip with `manifest.json` and each table's rows as PostgreSQL's COPY writes them (text)."""

import hashlib
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import BaseModel, Field, ValidationError

from app.errors import BadInputError

Message = bytes | bytearray | memoryview

LAYOUT = 1
"""Raised when a file is arranged in another way."""

_MANIFEST = "manifest.json"
_PIECE = 1024 * 1024
_LEVEL = 1  # higher levels take three times as long for a tenth of the size


class DamagedBackupError(BadInputError):
    """The file is not a backup, or not as it was written."""


class TableManifest(BaseModel):
    """One table: its columns in the order of the file, and what the file must hold."""

    name: str
    columns: list[str]
    rows: int
    sha256: str


class Manifest(BaseModel):
    """What a backup holds.

    `numbers` is the highest number in it that stands for a transaction. `reproducible` says whether the newest
    snapshot's votes were known when the backup was made.
    """

    layout: int = LAYOUT
    made_at: str
    version: str
    revision: str
    server: str
    numbers: int
    reproducible: bool
    tables: list[TableManifest] = Field(description="In an order in which foreign keys hold.")
    sequences: dict[str, int] = Field(description="Table → the last number that its sequence gave.")

    @property
    def rows(self) -> int:
        """The rows of all tables."""
        return sum(table.rows for table in self.tables)


class ArchiveWriter:
    """Writes a backup: the tables one after the other, then the manifest."""

    def __init__(self, path: Path) -> None:
        self._zip = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=_LEVEL)

    def add_table(
        self, name: str, columns: list[str], lines: Iterable[bytes | bytearray | memoryview]
    ) -> TableManifest:
        """Write a table's rows as they come, one a line, and return what was written."""
        digest, rows, piece = hashlib.sha256(), 0, bytearray()
        with self._zip.open(_member(name), "w", force_zip64=True) as file:
            for line in lines:
                piece += line
                rows += 1
                if len(piece) >= _PIECE:
                    digest.update(piece)
                    file.write(piece)
                    piece.clear()
            digest.update(piece)
            file.write(piece)
        return TableManifest(name=name, columns=columns, rows=rows, sha256=digest.hexdigest())

    def finish(self, manifest: Manifest) -> None:
        """Write the manifest and close the file: only now it is a backup."""
        self._zip.writestr(_MANIFEST, manifest.model_dump_json(indent=1))
        self._zip.close()


class ArchiveReader:
    """Reads a backup, and holds every byte against the manifest."""

    def __init__(self, archive: zipfile.ZipFile, path: Path) -> None:
        self._zip = archive
        self._path = path
        self.manifest = self._read_manifest()

    def rows_of(self, table: TableManifest) -> Iterator[bytes]:
        """Yield a table's rows in pieces; the last one has been checked with all before it.

        Raises DamagedBackupError: the bytes are not those that were written.
        """
        digest = hashlib.sha256()
        with _reading(self._path), self._zip.open(_member(table.name)) as file:
            while piece := file.read(_PIECE):
                digest.update(piece)
                yield piece
        if digest.hexdigest() != table.sha256:
            raise DamagedBackupError(f"the rows of {table.name} are not those that were written")

    def check(self) -> None:
        """Read the whole file once. Raises DamagedBackupError."""
        for table in self.manifest.tables:
            for _ in self.rows_of(table):
                pass

    def _read_manifest(self) -> Manifest:
        with _reading(self._path):
            manifest = Manifest.model_validate_json(self._zip.read(_MANIFEST))
        if manifest.layout != LAYOUT:
            raise BadInputError(f"the backup has layout {manifest.layout}; this version reads {LAYOUT}")
        return manifest


@contextmanager
def open_archive(path: Path) -> Iterator[ArchiveReader]:
    """Open a backup.

    Raises DamagedBackupError: it is no backup, or is damaged; also while it is read.
    """
    with _reading(path):
        archive = zipfile.ZipFile(path)
    with archive:
        yield ArchiveReader(archive, path)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Raise whatever the reading of a damaged file raises as `DamagedBackupError`."""
    try:
        yield
    except Exception as error:  # zipfile and its decompressors raise errors of many kinds, RuntimeError among them
        reason = "it has no manifest" if isinstance(error, KeyError | ValidationError) else str(error)
        raise DamagedBackupError(f"{path} is not a backup, or is damaged: {reason}") from error


def _member(table: str) -> str:
    return f"tables/{table}.tsv"
