"""The command `battles simulate`."""

import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from app.cli.options import PrintedOption
from app.cli.outputs import print_result
from app.cli.progress import Stages, showing_stages
from app.cli.tables import make_table
from app.errors import BadInputError
from app.imports.formats.indexing import encode
from app.imports.formats.whole import read_vote_file
from app.rating.simulation.parallel import Progress
from app.rating.simulation.pooled_arena import PooledArena, fitted_arena, simulated_arena
from app.rating.simulation.votes_needed import COMPARED, PolicyRow, compare_policies

FEWEST_MODELS = 4  # more than are to be decided


def simulate(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="Votes: CSV, JSONL (both also .gz, .zst) or Parquet.")
    ] = None,
    world: Annotated[
        list[int] | None, typer.Option(help="Simulated arenas of so many models instead of a file; repeat for several.")
    ] = None,
    bad: Annotated[
        float, typer.Option(min=0, max=0.4, help="Share of bad annotators in simulated arenas: coins, contrary, ties.")
    ] = 0.0,
    policy: Annotated[list[str] | None, typer.Option(help="Only this policy; repeat for several.")] = None,
    top: Annotated[int, typer.Option(min=1, help="How many leading models are to be decided.")] = 3,
    floor: Annotated[float, typer.Option(min=0.01, max=1, help="Share of battles on uniform pairs.")] = 0.1,
    repeats: Annotated[int, typer.Option(min=1, help="Arenas; of a file, times that its votes are drawn.")] = 30,
    seed: Annotated[int, typer.Option(min=0, help="The first seed; repeats use the following ones.")] = 0,
    processes: Annotated[int, typer.Option(min=1, max=64, help="Processes that share the repeats.")] = 2,
    output_format: PrintedOption = "table",
) -> None:
    """Simulate an arena like yours under every battle policy: how many votes its ranking takes."""
    if (file is None) == (not world):
        raise BadInputError("give either a vote FILE or --world MODELS")
    for name in policy or ():
        if name not in COMPARED:
            raise BadInputError(f"--policy must be one of {', '.join(COMPARED)}, is {name}")
    started = time.perf_counter()
    found: list[PolicyRow] = []
    with showing_stages() as stages:
        arenas = _arenas(file, world or [], bad, top, stages)
        stages.stage("simulating")
        for done, arena in enumerate(arenas):
            found += compare_policies(
                arena, seeds=range(seed, seed + repeats), policies=tuple(policy or COMPARED), k=top, floor=floor,
                processes=processes, progress=_part(stages.share, done, len(arenas)),
            )  # fmt: skip
    source = file.name if file else "simulated" + (f", {100 * bad:g} % bad annotators" if bad else "")
    notes = [
        "Ranking: votes from which the rank correlation (Spearman) with the truth stays above .95.",
        f"Top {top}: votes from which they stay decided, with a probability of .95.",
        "Medians. ×: votes relative to uniform pairs in the same arena, median and quartiles.",
    ]
    models = [row.models for row in found if row.policy == "uniform"]
    settings = {"source": source, "models": models, "bad": bad, "top": top, "floor": floor, "repeats": repeats}
    document = {
        "experiment": "battles",
        "settings": {**settings, "seed": seed},
        "policies": found,
        "notes": notes,
        "seconds": round(time.perf_counter() - started, 3),
    }
    print_result(output_format, document, _table(found, source, top), "", *notes)


def _arenas(
    file: Path | None, world: list[int], bad: float, top: int, stages: Stages
) -> list[Callable[[int], PooledArena]]:
    """Return a function from seeds to arenas for each size asked for, or for the file."""
    if file is None:
        if min(world) <= max(top, FEWEST_MODELS - 1):
            raise BadInputError(f"--world must be at least {max(top + 1, FEWEST_MODELS)} models, is {min(world)}")
        return [partial(simulated_arena, n_models=models, bad=bad) for models in dict.fromkeys(world)]
    stages.stage("reading")
    votes = read_vote_file(file, progress=stages.share)
    votes.require_valid()
    stages.stage("fitting")
    arena = fitted_arena(encode(votes.frame).aggregate())
    if len(arena.score) <= top:
        raise BadInputError(f"{file}: {len(arena.score)} model(s) have a score; --top {top} needs more")
    return [partial(_same, arena)]


def _same(arena: PooledArena, _seed: int) -> PooledArena:
    return arena


def _part(share: Progress | None, done: int, parts: int) -> Progress | None:
    return None if share is None else lambda of_part: share((done + of_part) / parts)


def _table(found: list[PolicyRow], source: str, top: int) -> Table:
    title = f"Votes that an arena needs · {source}, {found[0].arenas} arenas"
    columns = ("Models", "Policy", "Ranking", "×", f"Top {top}", "× ", "Wrong")
    rows = [
        (
            f"{row.models:,}", row.policy, f"{row.ranking:,.0f}", _ratio(row, "ranking"),
            f"{row.top:,.0f}", _ratio(row, "top"), f"{100 * row.wrong:.0f} %",
        )
        for row in found
    ]  # fmt: skip
    return make_table(*columns, rows=rows, words=["Policy"], title=title)


def _ratio(row: PolicyRow, key: str) -> str:
    plain: dict[str, Any] = asdict(row)
    return f"{plain[f'{key}_ratio']:.2f} ({plain[f'{key}_low']:.2f} to {plain[f'{key}_high']:.2f})"
