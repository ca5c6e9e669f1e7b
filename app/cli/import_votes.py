"""The command `stable-arena import`."""

from dataclasses import replace
from typing import Annotated, Any

import typer

from app.cli.inputs import (
    STDIN,
    AnnotatorColumnOption,
    ColumnsOption,
    DatesOption,
    FilesArgument,
    PoolOption,
    PrefixOption,
    SchemaOption,
    given_files,
    prefix_of,
)
from app.cli.options import PrintedOption
from app.cli.outputs import write_json
from app.cli.progress import showing_stages
from app.cli.session import open_session
from app.cli.texts import one_line
from app.imports.local import ImportReceipt, import_file
from app.imports.schemas import ImportFault
from app.imports.service import ImportOptions
from app.rating.errors import counted

_SHOWN = 10


def import_votes(
    files: FilesArgument,
    schema: SchemaOption = None,
    columns: ColumnsOption = None,
    annotator_column: AnnotatorColumnOption = None,
    pool_annotators: PoolOption = False,
    annotator_prefix: PrefixOption = "",
    dates: DatesOption = None,
    skip_invalid: Annotated[
        bool, typer.Option("--skip-invalid", help="Leave out invalid records instead of refusing the file.")
    ] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Import it even if the same file was imported before.")
    ] = False,
    new_rows_only: Annotated[
        bool, typer.Option("--new-rows-only", help="Leave out the votes that are on record already.")
    ] = False,
    allow_repeats: Annotated[
        bool, typer.Option("--allow-repeats", help="Record votes that are on record already as further votes.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check and count the records, but record nothing.")
    ] = False,
    output_format: PrintedOption = "table",
) -> None:
    """Record the votes of a file.

    Several files are recorded one after the other. Every record is checked before the first is written. An import that
    was killed is resumed when the same file is imported again; a file that was imported before is not imported twice.
    Votes that contradict recorded ones are listed and left out.
    """
    options = ImportOptions(
        schema=schema,
        annotator_column=annotator_column,
        pool_annotators=pool_annotators,
        columns=columns,
        annotator_prefix=annotator_prefix,
        dates=dates,
        skip_invalid=skip_invalid,
        again=again,
        new_rows_only=new_rows_only,
        allow_repeats=allow_repeats,
        dry_run=dry_run,
    )
    with given_files(files) as given, open_session() as session:
        receipts = []
        for file, path in zip(files, given, strict=True):
            own = replace(options, annotator_prefix=prefix_of(annotator_prefix, path))
            with showing_stages() as show:
                receipt = import_file(
                    session.database, path, own, requested_by="command line", stage=show.stage, progress=show.share
                )
            receipts.append(receipt)
            _print_errors("conflict", receipt.conflicts, receipt.counts.conflicts or 0)
            _print_errors("not valid", receipt.faults, receipt.counts.rejected)
            for note in receipt.notes:
                typer.echo(one_line(f"note: {note}"), err=True)
            if output_format == "table":
                typer.echo(_sentence("standard input" if file == STDIN else file.name, receipt))
    if output_format == "json":
        plain = [_plain(receipt) for receipt in receipts]
        write_json(plain[0] if len(plain) == 1 else {"imports": plain})


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
