"""Prints an experiment's results, and draws its figure."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from app.cli.outputs import check_output, print_result, write_output
from app.errors import BadInputError
from stable_arena_lab.commands.options import Format

Row = Mapping[str, Any]
Rows = Sequence[Row]


@dataclass(frozen=True)
class Table:
    """A titled table of texts; the columns in `text` are left-aligned."""

    title: str
    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    text: Sequence[str] = ()

    def __rich__(self) -> RenderableType:
        """Return the table for a terminal."""
        result = RichTable(box=None, pad_edge=False, header_style="bold")
        for header in self.headers:
            left = header in self.text
            result.add_column(header, justify="left" if left else "right", no_wrap=not left, overflow="fold")
        for row in self.rows:
            result.add_row(*row)
        return Group(Text(self.title, style="italic"), result)  # rich wraps a table's own title at its width

    def markdown(self) -> str:
        """Return the table as Markdown."""
        rule = ["---" if header in self.text else "---:" for header in self.headers]
        lines = [[cell.replace("|", "\\|") for cell in row] for row in (self.headers, rule, *self.rows)]
        return "\n".join([f"{self.title}\n", *(f"| {' | '.join(line)} |" for line in lines)])


@dataclass(frozen=True)
class Report:
    """The results of an experiment.

    Attributes
    ----------
    results : name → rows of the JSON document
    tables : the results as tables
    notes : sentences below the tables and in the document
    chart : a Vega-Lite specification
    """

    experiment: str
    settings: Mapping[str, Any]
    results: Mapping[str, Rows]
    tables: Sequence[Table]
    notes: Sequence[str]
    chart: Mapping[str, Any]
    seconds: float


def check_figure(figure: Path | None) -> None:
    """Refuse a figure that cannot be drawn or written, before any work is done.

    Raises
    ------
    BadInputError
        The name ends in neither .svg nor .json, or the folder does not exist.
    """
    if figure is None:
        return
    if figure.suffix.lower() not in (".svg", ".json"):
        raise BadInputError(f"--figure draws SVG or Vega-Lite: the name must end in .svg or .json, is {figure.name}")
    check_output(figure)


def publish(report: Report, output_format: Format, figure: Path | None) -> None:
    """Draw the figure, if any, and print the results."""
    if figure is not None:
        drawn = _draw(report.chart) if figure.suffix.lower() == ".svg" else json.dumps(report.chart).encode()
        write_output(drawn, figure)
    if output_format == "markdown":
        text = "\n\n".join([*(each.markdown() for each in report.tables), " ".join(report.notes)])
        write_output(f"{text}\n".encode(), None)
        return
    document = {
        "experiment": report.experiment,
        "settings": report.settings,
        **report.results,
        "notes": list(report.notes),
        "seconds": round(report.seconds, 3),
    }
    print_result(output_format, document, [*_spaced(report.tables), *report.notes])


def table(title: str, rows: Rows, columns: Mapping[str, Callable[[Row], str]], *, text: Sequence[str] = ()) -> Table:
    """Return rows as a table; `columns` maps headers to cells, the columns in `text` are left-aligned."""
    return Table(title, tuple(columns), [[cell(row) for cell in columns.values()] for row in rows], text)


def number(key: str, digits: int, *, sign: bool = False) -> Callable[[Row], str]:
    """Return a function that formats a row's number, – for None."""
    form = f"{'+' if sign else ''}.{digits}f"
    return lambda row: "–" if row[key] is None else format(row[key], form)


def word(key: str) -> Callable[[Row], str]:
    """Return a function that formats a row's word or count."""
    return lambda row: f"{row[key]:,}" if isinstance(row[key], int) else str(row[key])


def percent(key: str) -> Callable[[Row], str]:
    """Return a function that formats a row's share as a percentage, – for None."""
    return lambda row: "–" if row[key] is None else f"{100 * row[key]:.1f}"


def _spaced(tables: Sequence[Table]) -> list[RenderableType]:
    return [part for each in tables for part in (each, "")]


def _draw(chart: Mapping[str, Any]) -> bytes:
    import vl_convert  # noqa: PLC0415  30 MB that most commands do not need

    svg: str = vl_convert.vegalite_to_svg(dict(chart))
    return (svg + "\n").encode()
