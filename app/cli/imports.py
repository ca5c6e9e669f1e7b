"""The commands `stable-arena import` and `imports`: record vote files, list what was imported, and undo one."""

from dataclasses import dataclass
from typing import Annotated, Any
from uuid import UUID

import typer

from app.auth.keys import COMMAND_LINE
from app.cli.failures import one_line
from app.cli.inputs import STDIN, FilesArgument, PeopleFileOptions, given_files, options_of
from app.cli.options import LimitOption, PrintedOption, ReasonOption, grouped
from app.cli.outputs import print_list, print_made, print_result
from app.cli.progress import showing_stages
from app.cli.session import changing, open_session, reading
from app.imports.local import ImportReceipt, import_file
from app.imports.schemas import ImportFault
from app.imports.service import ImportOptions, list_imports
from app.rating.errors import counted
from app.votes.retractions.service import retract_votes

_SHOWN = 10

imports = typer.Typer(add_completion=False, no_args_is_help=True)


@dataclass(frozen=True)
class ImportedFileOptions(PeopleFileOptions):
    """How the files are read, and what is done with their votes; `ImportOptions` says what each means."""

    skip_invalid: Annotated[
        bool, typer.Option("--skip-invalid", help="Leave out invalid records instead of refusing the file.")
    ] = False
    again: Annotated[bool, typer.Option("--again", help="Import it even if the same file was imported before.")] = False
    new_rows_only: Annotated[
        bool, typer.Option("--new-rows-only", help="Leave out the votes that are on record already.")
    ] = False
    allow_repeats: Annotated[
        bool, typer.Option("--allow-repeats", help="Record votes that are on record already as further votes.")
    ] = False
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check and count the records, but record nothing.")] = False


@grouped
def import_votes(files: FilesArgument, *, read: ImportedFileOptions, output_format: PrintedOption = "table") -> None:
    """Record the votes of a file.

    Several files are recorded one after the other. Every record is checked before the first is written. An import that
    was killed is resumed when the same file is imported again; a file that was imported before is not imported twice.
    Votes that contradict recorded ones are listed and left out.
    """
    options = read.reading(ImportOptions)
    with given_files(files) as given, open_session() as session:
        receipts, stored = [], "standard input" if STDIN in files else "the logs"
        for path in given:
            own = options_of(options, path)
            with showing_stages() as show:
                receipt = import_file(
                    session.database, path, own, requested_by=COMMAND_LINE, stage=show.stage, progress=show.share
                )
            receipts.append(receipt)
            _print_errors("conflict", receipt.conflicts, receipt.counts.conflicts or 0)
            _print_errors("not valid", receipt.faults, receipt.counts.rejected)
            for note in receipt.notes:
                typer.echo(one_line(f"note: {note}"), err=True)
            if output_format == "table":
                typer.echo(_sentence(path.name if path in files else stored, receipt))
    if output_format == "json":
        plain = [_plain(receipt) for receipt in receipts]
        print_result("json", plain[0] if len(plain) == 1 else {"imports": plain})


@imports.command("list")
def show(limit: LimitOption = 50, output_format: PrintedOption = "table") -> None:
    """List the imports, the newest first."""
    with reading() as conn:
        found = list_imports(conn, limit=limit)
    state = ("State", lambda one: "undone" if one.undone_by else one.state)
    columns = ("Import=id", "Created=created_at", "File=file_name", state, "Votes=counts.created")
    print_list(output_format, "imports", found, *columns)


@imports.command()
def undo(
    import_id: Annotated[UUID, typer.Argument(metavar="ID", help="The import, as `imports list` shows it.")],
    reason: ReasonOption,
    output_format: PrintedOption = "table",
) -> None:
    """Retract all votes of an import; an import that still runs ends.

    The votes stay on record and do not count from the next refit on. The same file can be imported again.
    """
    with changing() as conn:
        done = retract_votes(conn, "import", str(import_id), reason=reason, retracted_by=COMMAND_LINE)
    said = f"{counted(done.votes, 'vote')} of import {import_id} retracted; they do not count from now on."
    print_made(output_format, done, said)


def _print_errors(what: str, faults: tuple[ImportFault, ...], total: int) -> None:
    for fault in faults[:_SHOWN]:
        typer.echo(one_line(f"{what}: {fault.place}: {fault.detail}"), err=True)
    if faults and total > _SHOWN:
        typer.echo(f"… and {total - _SHOWN:,} more", err=True)


def _plain(receipt: ImportReceipt) -> dict[str, Any]:
    return {
        "import_id": receipt.import_id and str(receipt.import_id),
        **receipt.counts.model_dump(),
        "already_imported": receipt.already_imported,
        "resumed": receipt.resumed,
        "conflict_places": _places(receipt.conflicts),
        "invalid_places": _places(receipt.faults),
    }


def _places(faults: tuple[ImportFault, ...]) -> list[dict[str, str]]:
    return [{"place": fault.place, "detail": fault.detail} for fault in faults]


def _sentence(name: str, receipt: ImportReceipt) -> str:
    name, counts = one_line(name), receipt.counts
    if receipt.already_imported:
        return f"{name} was imported before, so nothing was done (--again imports it once more)."
    records = counted(counts.rows, "record")
    if receipt.import_id is None:
        votes = counted(counts.rows - counts.rejected - counts.skipped, "vote")
        return (
            f"{name}: {records}, {votes}, {counts.skipped:,} skipped, {counts.rejected:,} not valid. "
            "Nothing was recorded, and nothing was compared with the recorded votes."
        )
    skipped = f", {counts.skipped:,} skipped" if counts.skipped else ""
    replaced = f" ({counts.replaced:,} in place of earlier ones)" if counts.replaced else ""
    retracted = f" ({counts.retracted:,} of retracted votes)" if counts.retracted else ""
    return (
        f"{name}: {records}, {counted(counts.created, 'vote')} recorded{replaced}, "
        f"{counted(counts.duplicates or 0, 'duplicate')}{retracted}, {counted(counts.conflicts or 0, 'conflict')}, "
        f"{counts.rejected:,} not valid{skipped}."
    )
