import json
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from app.cli.failures import one_line
from app.cli.outputs import write_output
from app.cli.progress import showing_stages
from app.cli.session import open_session
from app.imports.local import ImportReceipt, import_file
from app.imports.service import ImportFault, ImportOptions

_SHOWN = 10


def import_votes(
    file: Annotated[Path, typer.Argument(help="CSV, JSONL or Parquet file of votes.", show_default=False)],
    schema: Annotated[
        str | None, typer.Option(help="Name of the file's format.", show_default="told from the columns")
    ] = None,
    annotator_column: Annotated[
        str | None, typer.Option(help="Column that says who voted.", show_default="annotator, judge, user_id, …")
    ] = None,
    pool_annotators: Annotated[
        bool, typer.Option("--pool-annotators", help="Take every vote as one annotator's, named pooled.")
    ] = False,
    skip_invalid: Annotated[
        bool, typer.Option("--skip-invalid", help="Leave out records that are no votes instead of refusing the file.")
    ] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Import it even if the same file was imported before.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check and count the records, record nothing.")] = False,
    output_format: Annotated[Literal["table", "json"], typer.Option("--format", help="How to print it.")] = "table",
) -> None:
    """Record the votes of a file.

    Every record is checked before any is written. Killed half-way, the import is taken on when the same file is
    imported again; importing it once more does nothing. Votes that contradict the record are listed and left out.
    """
    options = ImportOptions(
        schema=schema,
        annotator_column=annotator_column,
        pool_annotators=pool_annotators,
        skip_invalid=skip_invalid,
        again=again,
        dry_run=dry_run,
    )
    with showing_stages() as show, open_session() as session:
        receipt = import_file(
            session.database, file, options, requested_by="command line", stage=show.stage, progress=show.share
        )
    _tell("conflict", receipt.conflicts, receipt.counts.conflicts or 0)
    _tell("not valid", receipt.faults, receipt.counts.rejected)
    if output_format == "json":
        write_output((json.dumps(_plain(receipt), indent=2, ensure_ascii=False) + "\n").encode(), None)
    else:
        typer.echo(_sentence(file, receipt))


def _tell(what: str, faults: tuple[ImportFault, ...], total: int) -> None:
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
        return f"{name} was imported before; nothing was done (--again imports it once more)."
    if receipt.import_id is None:
        votes = counts.rows - counts.rejected - counts.skipped
        return (
            f"{name}: {counts.rows:,} records, {votes:,} of them votes, {counts.skipped:,} skipped, "
            f"{counts.rejected:,} not valid. Nothing was recorded, nor compared with what is on record."
        )
    skipped = f", {counts.skipped:,} skipped" if counts.skipped else ""
    replaced = f" ({counts.replaced:,} in place of earlier ones)" if counts.replaced else ""
    retracted = f" ({counts.retracted:,} of retracted votes)" if counts.retracted else ""
    return (
        f"{name}: {counts.rows:,} records, {counts.created:,} votes recorded{replaced}, "
        f"{counts.duplicates:,} duplicates{retracted}, {counts.conflicts:,} conflicts, "
        f"{counts.rejected:,} not valid{skipped}."
    )
