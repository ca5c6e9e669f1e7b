"""Files of votes as tables, read as the command line reads them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from app.rating.estimators.tables import read_votes as read_columns


def read_votes(
    path: str | Path, *, features: Sequence[str] = (), skip_invalid: bool = False, **options: Any
) -> pl.DataFrame:
    """Read a file of votes as a polars table: CSV or JSON lines (both also .gz, .zst), or Parquet.

    Without options every column is kept, and names in a CSV file stay as they are written: 007 and 1.0 are text. With
    an option the file is read as `stable-arena rate` reads it, in any of its formats, and the table has the columns of
    a vote.

    Parameters
    ----------
    features : measures of both answers to read, such as ("length",)
    skip_invalid : leave out invalid records instead of refusing the file
    options : of `app.imports.formats.options.ReadOptions`: columns="winner=Label", where=("status=approved",),
        verdict=("gauche=left",), soft=True, pool_annotators=True, schema, annotator_column, zero_rank, criterion, …

    Raises
    ------
    ValueError
        The name has an unknown ending, or the file is not what its ending says (`VotesError`).
    StableArenaError
        With options: the file is no vote file, or has invalid records.
    FileNotFoundError
    """
    if not options and not features and not skip_invalid:
        return read_columns(path)
    from app.imports.formats.options import ReadOptions  # noqa: PLC0415  what plain tables do not need
    from app.imports.formats.whole import read_vote_file  # noqa: PLC0415  the same

    several = {name: (options[name],) for name in ("where", "verdict") if isinstance(options.get(name), str)}
    given: dict[str, Any] = {**options, **several, "features": tuple(features)}
    file = read_vote_file(Path(path), ReadOptions(**given))
    if not skip_invalid:
        file.require_valid(path)
    return file.table(features)
