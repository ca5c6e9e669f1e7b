"""The command `stable-arena plot`: a leaderboard as a picture, from a file that `rate` or `export` wrote."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import polars as pl
import typer

from app.cli.options import OutputOption
from app.cli.outputs import choose_format, write_output
from app.errors import BadInputError
from app.leaderboard.row_files import FORMULA
from app.rating.estimators.tables import leaderboard_chart

Format = Literal["svg", "png", "html"]

_NEEDED, _NUMBERS = ("model", "score"), ("score", "lower", "upper")
_STYLE: Mapping[str, Any] = {"font": "sans-serif", "background": "white", "aria": False, "view": {"stroke": "#ccc"}}

_HTML = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Leaderboard</title>
{}
</html>"""


def plot(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="What rate or export leaderboard wrote: JSON, JSONL, CSV or Parquet.",
            show_default=False,
        ),
    ],
    output: OutputOption = None,
    output_format: Annotated[
        Format | None, typer.Option("--format", help="By default what --output ends in, else svg.")
    ] = None,
    top: Annotated[int | None, typer.Option(min=1, help="Only so many models, the best.", show_default="all")] = None,
) -> None:
    """Draw a leaderboard that was rated or exported, as SVG, PNG or HTML.

    The HTML holds all that it needs and asks no other site for anything.
    """
    form: Format = choose_format(output_format, output, ("svg", "png", "html"))
    rows = _read_rows(file)[:top]
    spec = json.dumps({**leaderboard_chart(rows, "score (Elo points), with its interval"), "config": _STYLE})
    write_output(_drawn(spec, form), output)


def _drawn(spec: str, form: Format) -> bytes:
    import vl_convert  # noqa: PLC0415  30 MB that other commands do not need

    if form == "png":
        png: bytes = vl_convert.vegalite_to_png(spec, scale=2)
        return png
    svg: str = vl_convert.vegalite_to_svg(spec)
    return f"{_HTML.format(svg)}\n".encode() if form == "html" else f"{svg}\n".encode()


def _read_rows(file: Path) -> list[dict[str, Any]]:
    """Return model, score, lower, upper and component of the rows of a leaderboard."""
    try:
        rows = _READERS[file.suffix.lower()](file)
    except KeyError:
        raise BadInputError(f"{file} is of unknown kind; known are {', '.join(_READERS)}") from None
    except OSError as error:
        raise BadInputError(f"{file} cannot be read: {error.strerror}") from error
    except (ValueError, pl.exceptions.PolarsError) as error:
        raise BadInputError(f"{file} cannot be read: {str(error).partition(chr(10))[0]}") from error
    found = list(dict.fromkeys(name for row in rows for name in row))
    missing = [name for name in _NEEDED if name not in found]
    if missing:
        raise BadInputError(
            f"{file} is no leaderboard: missing {', '.join(missing)} (found: {', '.join(found) or 'nothing'}); "
            "rate a vote file first: stable-arena rate votes.csv --format json --output board.json"
        )
    return [
        {"model": str(row["model"]), "component": row.get("component"), **{name: row.get(name) for name in _NUMBERS}}
        for row in rows
    ]


def _from_json(file: Path) -> Sequence[dict[str, Any]]:
    document = json.loads(file.read_text(encoding="utf-8"))
    rows = document.get("models") if isinstance(document, dict) else document
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError("it has no list of models")
    return rows


def _from_csv(file: Path) -> Sequence[dict[str, Any]]:
    rows = pl.read_csv(file, infer_schema_length=None, schema_overrides={"model": pl.String}, glob=False).to_dicts()
    return [{**row, "model": _unescaped(str(row["model"]))} if "model" in row else row for row in rows]


def _unescaped(name: str) -> str:
    """Remove the apostrophe that CSV has before a text that a spreadsheet would read as a formula."""
    return name[1:] if re.match("^'" + FORMULA[1:], name) else name


_READERS: Mapping[str, Callable[[Path], Sequence[dict[str, Any]]]] = {
    ".json": _from_json,
    ".jsonl": lambda file: [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line],
    ".csv": _from_csv,
    ".parquet": lambda file: pl.read_parquet(file, glob=False).to_dicts(),
}
