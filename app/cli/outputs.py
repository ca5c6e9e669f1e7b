"""Where a command's result goes, and in which format: standard output, or a file that is replaced as a whole."""

import shutil
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import typer
from pydantic_core import to_json
from rich.console import RenderableType

from app.cli.tables import Column, render, table_of
from app.drafts import draft_of
from app.errors import BadInputError
from app.leaderboard.row_files import ROW_FILES

Format = TypeVar("Format", bound=str)


def choose_format(asked: Format | None, output: Path | None, formats: Sequence[Format]) -> Format:
    """Return the format asked for, else the one that the output's name ends in, else the first of `formats`.

    `votes.csv` means csv and `board.txt` means table. This checks the output before any work is done.

    Raises BadInputError: the output cannot be written, its ending is unknown, or it is no text and would go to a
    terminal.
    """
    if output is not None:
        check_output(output)
    form = asked or _format_of_name(output, formats)
    if form in ("parquet", "xlsx") and output is None and stdout_is_terminal():
        name = "Parquet" if form == "parquet" else "a spreadsheet"
        raise BadInputError(f"{name} cannot be shown on a terminal: give --output FILE or a pipe")
    return form


def _format_of_name(output: Path | None, formats: Sequence[Format]) -> Format:
    ending = output.suffix.lower() if output else ""
    if not ending:
        return formats[0]
    endings = {".txt" if form == "table" else f".{form}": form for form in formats}
    if ending not in endings:
        raise BadInputError(
            f"--output {output}: {ending} is none of the known endings {', '.join(endings)}; "
            "choose a format with --format"
        )
    return endings[ending]


def check_output(path: Path) -> None:
    """Refuse a path that cannot be written, before any work is done.

    Raises BadInputError: it is a folder, or its folder does not exist.
    """
    if path.is_dir():
        raise BadInputError(f"{path} is a folder, not a file to write")
    if not path.absolute().parent.is_dir():
        raise BadInputError(f"the folder {path.absolute().parent} does not exist")


def stdout_is_terminal() -> bool:
    """Return whether standard output is a terminal."""
    return sys.stdout.isatty()


def print_result(
    form: str, document: object, parts: Iterable[RenderableType] = (), *,
    rows: Iterable[Mapping[str, Any]] = (), columns: Sequence[str] = (), output: Path | None = None,
) -> None:  # fmt: skip
    """Print a command's result, or write it to a file.

    `document`: as JSON, indented: a model, a dataclass or a mapping.
    `parts`: as text, as wide as the terminal, or uncut and plain where there is none; made only if they are printed.
    `rows`, `columns`: as CSV, Parquet or a spreadsheet; `columns` where there are no rows.
    """
    if form == "json":
        content = to_json(document, indent=2, by_alias=False, inf_nan_mode="null") + b"\n"
    elif form == "table":
        content = render(parts, terminal=output is None and stdout_is_terminal()).encode()
    else:
        content = ROW_FILES[form](rows, columns)
    write_output(content, output)


def print_list(form: str, name: str, found: Sequence[Any], *columns: Column, figures: Collection[str] = ()) -> None:
    """Print a list of response models: as JSON under its name, or as a table of these columns (`table_of`)."""
    print_result(form, {name: found}, [table_of(found, *columns, figures=figures)])


def print_made(form: str, document: object, said: str) -> None:
    """Print what a command has done: the response model as JSON, or these words."""
    if form == "json":
        print_result(form, document)
    else:
        typer.echo(said)


def write_output(content: bytes, path: Path | None) -> None:
    """Write to the file, or to standard output without one.

    A regular file is replaced in one step: its readers see the old content or the new, never a part.
    """
    if path is None:
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        sys.stdout.flush()  # a closed pipe is noticed here; at the interpreter's exit it could not be caught
        return
    if _is_device(path):
        path.write_bytes(content)
        return
    with draft_of(path.resolve()) as draft:
        draft.write_bytes(content)


def move_output(file: Path, path: Path | None) -> None:
    """Move a finished file to its place, or copy it to standard output; the file is on the path's file system."""
    if path is None:
        with file.open("rb") as content:
            shutil.copyfileobj(content, sys.stdout.buffer)
        sys.stdout.flush()
    elif _is_device(path):
        shutil.copyfile(file, path)
    else:
        with draft_of(path.resolve()) as draft:
            file.replace(draft)


def _is_device(path: Path) -> bool:
    """Return whether the path is a device or a pipe, which cannot be replaced."""
    return path.exists() and not path.is_file()
