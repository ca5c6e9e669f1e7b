"""Opens a vote file by its kind, and unpacks or converts what no source reads as it is."""

import codecs
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

from app.imports.formats.csv import CsvSource
from app.imports.formats.errors import FileTooLargeError, NoVotesError, UnreadableFileError
from app.imports.formats.expansion import UNPACKABLE, open_content
from app.imports.formats.jsonl import JsonlSource
from app.imports.formats.parquet import ParquetSource
from app.imports.formats.sources import UNREADABLE, VoteSource, first_line, scan_lines
from app.imports.formats.xlsx import XlsxSource

_TEXTS: dict[str, Callable[[Path], VoteSource]] = {
    ".csv": CsvSource, ".tsv": CsvSource, ".json": JsonlSource, ".jsonl": JsonlSource,
}  # fmt: skip
SOURCES: dict[str, Callable[[Path], VoteSource]] = {
    **{ending + packed: make for ending, make in _TEXTS.items() for packed in ("", ".gz", ".zst")},
    ".parquet": ParquetSource,
    ".xlsx": XlsxSource,
}
"""By the ending of the file's name; texts may be compressed."""

_ANY = ("", ".gz", ".zst", ".txt", ".zip")
"""Endings that do not say what is inside."""
_ZIP, _PARQUET = b"PK\x03\x04", b"PAR1"
_PACKED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd")
_MARKS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_SHEET = "[Content_Types].xml"
MAX_STORED_BYTES = 1024**3
"""Of a file that is unpacked or converted on disk."""
_PIECE = 1 << 20


class Opened:
    """A file that is open: its source, and the path that stands in messages on it, which may be of a converted copy."""

    def __init__(self, path: Path, ending: str | None = None) -> None:
        self._copies: list[IO[bytes]] = []
        self.path = path
        self.source = self._open(path, ending)

    def say(self, detail: str) -> str:
        """Return a message with the file's own name."""
        for copy in self._copies:
            detail = detail.replace(copy.name, str(self.path))
        return detail

    def _open(self, path: Path, ending: str | None) -> VoteSource:
        if path.is_dir():
            raise UnreadableFileError(f"{path} is a folder, not a file")
        if not path.exists():
            raise UnreadableFileError(f"{path} does not exist")
        kind = ending or "".join(path.suffixes[-2:]).lower()
        kind = kind if kind in SOURCES else path.suffix.lower() if ending is None else ending
        start = _beginning(path)
        if kind not in SOURCES and kind not in _ANY and not start.startswith((*_PACKED, _ZIP)):
            raise UnreadableFileError(f"{path} is of unknown kind; known are {', '.join(SOURCES)}, .txt and .zip")
        if start.startswith(_ZIP) and kind != ".xlsx":
            return self._unzip(path)
        if kind not in (".parquet", ".xlsx") and (mark := _decompressed_mark(path)) in _MARKS:
            path = self._decoded(path, mark)
        return SOURCES[kind if kind in SOURCES else kind_of_content(path)](path)

    def _unzip(self, path: Path) -> VoteSource:
        """Open the one file of an archive."""
        try:
            with zipfile.ZipFile(path) as packed:
                names = [one for one in packed.namelist() if not one.endswith("/")]
                if _SHEET in names:
                    return XlsxSource(path)
                names = [one for one in names if not one.startswith("__MACOSX/") and not Path(one).name.startswith(".")]
                if len(names) != 1:
                    raise UnreadableFileError(
                        f"{path} has {len(names):,} files ({', '.join(names[:5])}): unpack it, and name the one with "
                        "the votes"
                    )
                ending = "".join(Path(names[0]).suffixes[-2:]).lower()
                ending = ending if ending in SOURCES else Path(names[0]).suffix.lower()
                with packed.open(names[0]) as content:
                    copy = self._stored(path, content, ending)
        except (zipfile.BadZipFile, OSError, RuntimeError, *UNPACKABLE) as error:
            raise UnreadableFileError(f"{path} cannot be unpacked: {first_line(error)}") from error
        return self._open(copy, ending or None)

    def _decoded(self, path: Path, mark: bytes) -> Path:
        """Return the path of a copy in UTF-8 of a text in UTF-16."""
        with open_content(path) as content:
            try:
                return self._stored(path, codecs.EncodedFile(content, "utf-8", _MARKS[mark]), "")
            except (UnicodeError, *UNPACKABLE) as error:
                raise UnreadableFileError(f"{path} is not UTF-16 text: {first_line(error)}") from error

    def _stored(self, path: Path, content: IO[bytes] | codecs.StreamRecoder, ending: str) -> Path:
        copy = tempfile.NamedTemporaryFile(prefix="stable-arena-", suffix=ending)  # noqa: SIM115  lives with the source
        self._copies.append(copy)
        while piece := content.read(_PIECE):
            copy.write(piece)
            if copy.tell() > MAX_STORED_BYTES:
                detail = f"{path} expands to more than {MAX_STORED_BYTES:,} bytes: unpack it, and convert it to UTF-8"
                raise FileTooLargeError(detail, extensions={"limit": MAX_STORED_BYTES})
        copy.flush()
        return Path(copy.name)


def _beginning(path: Path) -> bytes:
    try:
        with path.open("rb") as content:
            start = content.read(4)
    except OSError as error:
        raise UnreadableFileError(f"{path} cannot be read: {error.strerror}") from error
    if not start:
        raise NoVotesError(f"{path} is empty")
    return start


def _decompressed_mark(path: Path) -> bytes:
    try:
        with open_content(path) as content:
            return content.read(2)
    except UNPACKABLE:
        return b""  # the source says what is wrong


def kind_of_content(path: Path) -> str:
    """Return the ending that fits the content: JSON begins with a bracket, other text is CSV."""
    start = _beginning(path)
    if start.startswith((_PARQUET, _ZIP)):
        return ".parquet" if start.startswith(_PARQUET) else ".xlsx"
    try:
        first = next((one for one in scan_lines(path) if one.strip()), "")
    except UNREADABLE:
        first = ""  # the source says what is wrong
    return ".json" if first.lstrip().startswith(("[", "{")) else ".csv"
