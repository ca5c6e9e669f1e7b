"""Options that the experiments share."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from app.errors import BadInputError

MOST_K = 1_000.0  # far beyond any K in use

Format = Literal["table", "markdown", "json"]

FileArgument = Annotated[
    Path | None, typer.Argument(metavar="[FILE]", help="Votes: CSV, JSONL (both also .gz, .zst) or Parquet.")
]
SimulatedOption = Annotated[
    bool, typer.Option("--simulated", help="Arenas of the am-ELO paper's size instead of a file, one for each seed.")
]
MinVotesOption = Annotated[int, typer.Option(min=0, help="Annotators with this many votes or fewer are left out.")]
SeedOption = Annotated[int, typer.Option(min=0, help="The first seed; repeats use the following ones.")]
ShufflesOption = Annotated[
    int, typer.Option(min=2, max=100_000, help="Orders of the votes over which Elo is averaged.")
]
ProcessesOption = Annotated[int, typer.Option(min=1, max=64, help="Processes that share the repeats.")]
FormatOption = Annotated[Format, typer.Option("--format", help="Format of the results.")]
FigureOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE.svg|.json", help="Draw the results, or write Vega-Lite JSON."),
]


def check_k_factors(k: Sequence[float]) -> tuple[float, ...]:
    """Return the values of --k, each once; raise BadInputError where one is out of range."""
    if not all(0 < each <= MOST_K for each in k):
        raise BadInputError(f"--k must be greater than 0 and at most {MOST_K:g}")
    return tuple(dict.fromkeys(k))
