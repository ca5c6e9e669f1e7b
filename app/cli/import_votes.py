"""The command `stable-arena import`."""

from pathlib import Path
from typing import Annotated, Any

import typer

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
    file: Annotated[Path, typer.Argument(help="CSV, JSONL or Parquet file of votes.", show_default=False)],
    schema: Annotated[
        str | None, typer.Option(help="Name of the file's format.", show_default="recognised by the columns")
    ] = None,
    annotator_column: Annotated[
        str | None, typer.Option(help="Column that says who voted.", show_default="annotator, judge, user_id, …")
    ] = None,
    pool_annotators: Annotated[
        bool, typer.Option("--pool-annotators", help="Treat all votes as one annotator's, named pooled.")
    ] = False,
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

    Every record is checked before the first is written. An import that was killed is resumed when the same file is
    imported again; a file that was imported before is not imported twice. Votes that contradict recorded ones are
    listed and left out.
    """
    options = ImportOptions(
        schema=schema,
        annotator_column=annotator_column,
        pool_annotators=pool_annotators,
        skip_invalid=skip_invalid,
        again=again,
        new_rows_only=new_rows_only,
        allow_repeats=allow_repeats,
        dry_run=dry_run,
    )
    with showing_stages() as show, open_session() as session:
        receipt = import_file(
            session.database, file, options, requested_by="command line", stage=show.stage, progress=show.share
        )
    _print_errors("conflict", receipt.conflicts, receipt.counts.conflicts or 0)
    _print_errors("not valid", receipt.faults, receipt.counts.rejected)
    if output_format == "json":
        write_json(_plain(receipt))
    else:
        typer.echo(_sentence(file, receipt))


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


def _sentence(file: Path, receipt: ImportReceipt) -> str:
    name, counts = one_line(file.name), receipt.counts
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
