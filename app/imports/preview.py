"""The beginning of a file of votes as an import would read it: what its columns are taken for, unknown verdicts."""

import codecs
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from app.errors import BadInputError
from app.imports.formats.expansion import last_end
from app.imports.formats.options import ReadOptions
from app.imports.formats.schemas import ColumnsError, Input
from app.imports.process import ImportProcess
from app.refits.fit.work_process import ProcessLostError
from app.settings import Settings
from app.state import ProcessState

if TYPE_CHECKING:
    from app.imports.formats.sources import VoteSource

_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_ROWS, _COLUMNS, _LONGEST = 5, 12, 60


@dataclass(frozen=True)
class FilePreview:
    """What an import makes of the beginning of a file.

    Attributes
    ----------
    columns : of the file: all, by name
    taken : column → what it is taken for, by our name for it
    rows : the first records: a text for each of `shown`, the columns that are shown
    schema : name of the format; None where the columns are those of none
    votes, records : how many valid votes the records at the beginning are
    unknown : outcome words that the format does not know, the most frequent first, with their number in these records
    problem : why the records cannot be read; None where they can, or where columns are missing
    """

    columns: list[str]
    taken: Mapping[str, Input]
    shown: list[str]
    rows: list[list[str]]
    schema: str | None = None
    votes: int = 0
    records: int = 0
    unknown: tuple[tuple[str, int], ...] = ()
    problem: str | None = None


class FilePreviews:
    """Reads beginnings of files in a process of its own, which stays for a minute: another column, another preview.

    `memory_bytes`: that the process may have.
    """

    def __init__(self, memory_bytes: int | None) -> None:
        self._process = ImportProcess(memory_bytes=memory_bytes, priority=0)

    def preview(self, content: bytes, options: ReadOptions, *, name: str, ending: str, cut: bool) -> FilePreview:
        """Read the beginning of a file.

        `ending`: its kind, such as `.csv`.
        `cut`: whether more follows: then the last line, which may be cut in two, is left out.
        Raises BadInputError: it is no file of this kind, or reading it takes too much memory.
        """
        try:
            return self._process.call(partial(_read, content, options, name, ending, cut=cut))
        except (MemoryError, ProcessLostError) as error:
            raise BadInputError(f"reading {name} needs more memory than an import may have: {error}") from error
        finally:
            self._process.rest()

    def stop(self) -> None:
        """End the process."""
        self._process.stop()


def provide_file_previews(state: ProcessState) -> None:
    """Hold the process that reads beginnings of files; it ends with this one."""
    state[FilePreviews] = previews = FilePreviews(state[Settings].imports.memory_bytes)
    state.closing.callback(previews.stop)


def _read(content: bytes, options: ReadOptions, name: str, ending: str, *, cut: bool) -> FilePreview:
    with tempfile.TemporaryDirectory(prefix="stable-arena-") as folder:
        path = Path(folder) / f"beginning{ending}"
        path.write_bytes(_whole_records(content, ending) if cut else content)
        try:
            return _preview(path, options, name)
        except BadInputError as error:
            raise BadInputError(error.detail.replace(str(path), name)) from error


def _preview(path: Path, options: ReadOptions, name: str) -> FilePreview:
    from app.imports.formats.opening import Opened  # noqa: PLC0415  loads polars in the child alone
    from app.imports.formats.reading import VoteReader  # noqa: PLC0415  polars too

    opened = Opened(path)
    source = opened.source
    columns = list(source.columns)
    try:
        reader = VoteReader(path, options)
        checked = next(reader.batches(max_faults=0))
    except BadInputError as error:
        shown = columns[:_COLUMNS]
        problem = error.hint if isinstance(error, ColumnsError) else error.detail.replace(str(path), name)
        return FilePreview(columns, {}, shown, _rows(source, shown), problem=problem)
    taken = {column: field for field, column in reader.form.columns.items() if column in columns}
    shown = [column for place, column in enumerate(columns) if place < _COLUMNS or column in taken]
    return FilePreview(
        columns=columns,
        taken=taken,
        shown=shown,
        rows=_rows(source, shown),
        schema=reader.form.schema.name,
        votes=checked.votes.height,
        records=checked.records,
        unknown=tuple(reader.unknown.most_common()),
    )


def _rows(source: "VoteSource", shown: list[str]) -> list[list[str]]:
    """Return the first records, in these columns, as they are in the file."""
    batch = next(source.batches(cast("dict[Input, str]", {column: column for column in shown})), None)
    records = [] if batch is None else batch.frame.head(_ROWS).rows()
    texts = [["" if value is None else str(value) for value in row] for row in records]
    return [[text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…" for text in row] for row in texts]


def _whole_records(content: bytes, ending: str) -> bytes:
    """Return the content up to its last whole record; in CSV a record goes on while a quote is open."""
    if content.startswith(_UTF16):
        content = content.decode("utf-16", errors="ignore").encode()
    quoted = ending in (".csv", ".tsv")
    return content[: last_end(content, is_open=quoted and content.count(b'"') % 2 == 1, quoted=quoted) + 1]
