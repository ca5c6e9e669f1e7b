from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import polars as pl

from app.rating.errors import VotesError

_NAMES = {"annotator": pl.String, "model_a": pl.String, "model_b": pl.String, "battle_id": pl.String}
_READERS: Mapping[str, Callable[[Path], pl.DataFrame]] = {
    ".csv": partial(pl.read_csv, schema_overrides=_NAMES, infer_schema_length=None),
    ".jsonl": partial(pl.read_ndjson, infer_schema_length=None),
    ".parquet": pl.read_parquet,
}


def read_votes(path: str | Path) -> pl.DataFrame:
    """Read a file of votes as a polars table: CSV or JSON lines (both also .gz, .zst), or Parquet.

    Every column is kept. Names in a CSV file stay as they are written: 007 and 1.0 are text.

    Raises
    ------
    VotesError
        The name has an unknown ending, or the file is not what its ending says.
    FileNotFoundError
    """
    path = Path(path)
    kind = Path(path.stem).suffix if path.suffix in (".gz", ".zst") else path.suffix
    if kind not in _READERS:
        raise VotesError(
            f"{path} is of unknown kind; known are {', '.join(_READERS)}, and .csv and .jsonl as .gz and .zst"
        )
    try:
        return _READERS[kind](path)
    except pl.exceptions.PolarsError as error:
        raise VotesError(f"{path} cannot be read: {str(error).splitlines()[0]}") from error
