"""The vote files that a command reads, and how: options that `rate` and `import` share."""

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from app.errors import BadInputError, FieldError
from app.imports.formats.options import DayOrder, ReadOptions, ZeroRank
from app.imports.formats.whole import VoteFile, join_vote_files, read_vote_file

STDIN = Path("-")
_CALLED = "standard input"

Options = TypeVar("Options", bound=ReadOptions)

FilesArgument = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE...",
        help="Votes: CSV, TSV, JSON or JSONL (all also .gz, .zst), Parquet or XLSX; - for standard input.",
        show_default=False,
    ),
]


@dataclass(frozen=True)
class FileOptions:
    """How a vote file is read; `ReadOptions` says what each means."""

    schema: Annotated[
        str | None, typer.Option(help="Name of the file's format.", show_default="recognised by the columns")
    ] = None
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="FIELD=COLUMN,…",
            help="Columns with other names: winner=Label,model_a=First,model_b=Second. completions[].model is in a "
            "list; rating=score_* has a column for each model.",
        ),
    ] = None
    annotator_column: Annotated[
        str | None, typer.Option(help="Column that says who voted.", show_default="annotator, judge, user_id, …")
    ] = None
    annotator_prefix: Annotated[
        str,
        typer.Option(
            metavar="TEXT", help="Put before every annotator, to keep studies apart; {file} is the file's name."
        ),
    ] = ""
    dates: Annotated[
        DayOrder | None,
        typer.Option(help="Order in dates such as 1/2/2026.", show_default="by dates that only fit one"),
    ] = None
    verdict: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WORD=VERDICT",
            help="What a word of the file means: gauche=left. Verdicts are left, right, tie, both_bad, and name "
            "for a model's name. Repeat it.",
        ),
    ] = None
    where: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN=VALUE",
            help="Read only the rows with this value, or without it: status=approved, lang!=en. Repeat it.",
        ),
    ] = None

    def reading(self, kind: type[Options], **more: Any) -> Options:
        """Return these options and more as those of reading a file, or of importing it."""
        known = {one.name for one in fields(kind)}
        given = {one.name: getattr(self, one.name) for one in fields(self) if one.name in known}
        return kind(**{**given, "verdict": tuple(self.verdict or ()), "where": tuple(self.where or ()), **more})


@dataclass(frozen=True)
class PeopleFileOptions(FileOptions):
    """How a vote file is read that may have one annotator, or ranks."""

    pool_annotators: Annotated[
        bool, typer.Option("--pool-annotators", help="Treat all votes as one annotator's, named pooled.")
    ] = False
    zero_rank: Annotated[
        ZeroRank | None,
        typer.Option(
            help="What a rank of 0 means: the best, or not ranked.", show_default="asks where it is not clear"
        ),
    ] = None


def read_votes(files: Sequence[Path], options: ReadOptions, progress: Callable[[float], None] | None) -> VoteFile:
    """Return the votes of several files as those of one."""
    return join_vote_files([read_vote_file(file, options_of(options, file), progress=progress) for file in files])


def options_of(options: Options, file: Path) -> Options:
    """Return the options for one file: `{file}` in the prefix of its annotators is its name."""
    return replace(options, annotator_prefix=options.annotator_prefix.replace("{file}", file.name.split(".")[0]))


def features_of(style: str | None) -> tuple[str, ...]:
    """Return the features that --style names, with commas between."""
    return tuple(name for part in (style or "").split(",") if (name := part.strip()))


@contextmanager
def given_files(files: Sequence[Path]) -> Iterator[list[Path]]:
    """Give the files to read while the block runs; standard input is stored in a file, whose kind its content shows.

    Several files of one JSON object each are joined: a log of Inspect has the grades of one model.

    Raises BadInputError: standard input is named twice, or it is a terminal.
    """
    joined = len(files) > 1 and all(map(_is_one_object, files))
    if STDIN not in files and not joined:
        yield list(files)
        return
    if list(files).count(STDIN) > 1:
        raise BadInputError("- stands for standard input, which can be read once")
    if not joined and sys.stdin.isatty():
        raise BadInputError("- reads votes from standard input, but that is the terminal: give a file or a pipe")
    with tempfile.TemporaryDirectory(prefix="stable-arena-") as folder:
        stored = Path(folder) / "stdin"
        with stored.open("wb") as copy:
            for file in files if joined else [STDIN]:
                with nullcontext(sys.stdin.buffer) if file == STDIN else file.open("rb") as content:
                    shutil.copyfileobj(content, copy)
        stored = stored.rename(stored.with_name("logs.json" if joined else "stdin"))
        try:
            yield [stored] if joined else [stored if file == STDIN else file for file in files]
        except BadInputError as error:
            raise _called(error, str(stored), "the logs" if joined else _CALLED) from error


def _is_one_object(file: Path) -> bool:
    """Return whether a file begins with a brace alone in its line, as programs write one object."""
    if file.suffix != ".json" or not file.is_file():
        return False
    with file.open("rb") as content:
        return content.readline(3).strip() == b"{"


def _called(error: BadInputError, path: str, called: str) -> BadInputError:
    errors = tuple(FieldError(one.pointer.replace(path, called), one.detail) for one in error.errors)
    return BadInputError(error.detail.replace(path, called), errors, n_errors=error.n_errors)
