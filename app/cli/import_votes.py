import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from app.arena import imports
from app.arena.files import file_sha256, read_vote_file
from app.arena.imports import ImportReceipt
from app.cli.failures import one_line
from app.cli.outputs import write_output
from app.cli.progress import showing_stages
from app.cli.session import open_session

_SHOWN = 10


def import_votes(
    file: Annotated[Path, typer.Argument(help="CSV, JSONL or Parquet file of votes.", show_default=False)],
    again: Annotated[
        bool, typer.Option("--again", help="Import it even if the same file was imported before.")
    ] = False,
    skip_invalid: Annotated[
        bool, typer.Option("--skip-invalid", help="Leave out records that are no votes instead of refusing the file.")
    ] = False,
    pool_annotators: Annotated[
        bool, typer.Option("--pool-annotators", help="Take every vote as one annotator's, named pooled.")
    ] = False,
    output_format: Annotated[Literal["table", "json"], typer.Option("--format", help="How to print it.")] = "table",
) -> None:
    """Record the votes of a file, all or none.

    Importing the same file twice does nothing; votes that contradict the record are listed and left out.
    """
    with showing_stages() as show:
        show.stage("Reading")
        votes = read_vote_file(file, pooled=pool_annotators, progress=show.share)
        sha256 = file_sha256(file)
        with open_session() as session, session.database.begin() as conn:
            show.stage("Recording")
            receipt = imports.import_votes(
                conn, votes, sha256=sha256, again=again, skip_invalid=skip_invalid, progress=show.share
            )
            show.stage("Committing")
    _tell_conflicts(receipt)
    if output_format == "json":
        write_output((json.dumps(_plain(receipt), indent=2, ensure_ascii=False) + "\n").encode(), None)
    else:
        typer.echo(_sentence(file, receipt))


def _tell_conflicts(receipt: ImportReceipt) -> None:
    for fault in receipt.conflict_places[:_SHOWN]:
        typer.echo(one_line(f"conflict: {fault.pointer}: {fault.detail}"), err=True)
    if receipt.conflicts > len(receipt.conflict_places[:_SHOWN]) and not receipt.already_imported:
        typer.echo(f"… and {receipt.conflicts - _SHOWN:,} more conflicts", err=True)


def _plain(receipt: ImportReceipt) -> dict[str, Any]:
    plain = asdict(receipt)
    plain["import_id"] = str(receipt.import_id)
    plain["conflict_places"] = [{"place": f.pointer, "detail": f.detail} for f in receipt.conflict_places]
    return plain


def _sentence(file: Path, receipt: ImportReceipt) -> str:
    name = one_line(file.name)
    if receipt.already_imported:
        return f"{name} was imported before; nothing was done (--again imports it once more)."
    return (
        f"{name}: {receipt.rows:,} records, {receipt.created:,} votes recorded, {receipt.duplicates:,} duplicates, "
        f"{receipt.conflicts:,} conflicts, {receipt.rejected:,} not valid."
    )
