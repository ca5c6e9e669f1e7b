"""How large the parts of a file may be. Small compressed files can hold values of gigabytes."""

from pathlib import Path
from typing import cast

import polars as pl

from app.errors import BadInputError
from app.imports.formats.schemas import Input
from app.imports.formats.sources import RawBatch

MAX_COLUMNS = 2_000
MAX_VALUE_BYTES = 1024**2


def check_columns(path: Path, n_columns: int) -> None:
    """Refuse a file of too many columns.

    Raises
    ------
    BadInputError
    """
    if n_columns > MAX_COLUMNS:
        raise BadInputError(f"{path} has {n_columns:,} columns, at most {MAX_COLUMNS:,} are read")


def refuse_long_values(raw: RawBatch) -> RawBatch:
    """Return the batch with an error in place of every value of more than `MAX_VALUE_BYTES`."""
    long = {
        name: (values.str.len_bytes() > MAX_VALUE_BYTES).fill_null(value=False)
        for name, values in cast("dict[Input, pl.Series]", raw.frame.to_dict()).items()
        if values.dtype == pl.String
    }
    long = {name: rows for name, rows in long.items() if rows.any()}
    if not long:
        return raw
    detail = f"must have at most {MAX_VALUE_BYTES:,} bytes"
    why = {
        name: {**raw.unusable.get(name, {}), **dict.fromkeys(rows.arg_true(), detail)} for name, rows in long.items()
    }
    short = raw.frame.with_columns(pl.when(~rows).then(pl.col(name)).alias(name) for name, rows in long.items())
    return RawBatch(short, {**raw.unusable, **why}, raw.ambiguous)
