import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from app.cli.progress import Stages, showing_stages
from app.errors import BadInputError
from stable_arena_lab.battles.pooled_arena import PooledArena, fitted_arena, simulated_arena
from stable_arena_lab.battles.votes_needed import COMPARED, compare_policies
from stable_arena_lab.commands.options import FileArgument, FormatOption, ProcessesOption, SeedOption
from stable_arena_lab.commands.report import Report, Row, Rows, Table, number, percent, publish, table, word
from stable_arena_lab.commands.vote_files import read_indexed
from stable_arena_lab.parallel import Progress

FEWEST_MODELS = 4  # more than are to be decided


def policies(
    file: FileArgument = None,
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
    seed: SeedOption = 0,
    processes: ProcessesOption = 2,
    output_format: FormatOption = "table",
) -> None:
    """Simulate an arena like yours under every battle policy: how many votes its ranking takes."""
    if (file is None) == (not world):
        raise BadInputError("give either a vote FILE or --world MODELS")
    for name in policy or ():
        if name not in COMPARED:
            raise BadInputError(f"--policy must be one of {', '.join(COMPARED)}, is {name}")
    started = time.perf_counter()
    found: list[Row] = []
    with showing_stages() as stages:
        arenas = _arenas(file, world or [], bad, top, stages)
        stages.stage("simulating")
        for done, arena in enumerate(arenas):
            rows = compare_policies(
                arena, seeds=range(seed, seed + repeats), policies=tuple(policy or COMPARED), k=top, floor=floor,
                processes=processes, progress=_part(stages.share, done, len(arenas)),
            )  # fmt: skip
            found += [asdict(row) for row in rows]
    source = file.name if file else "simulated" + (f", {100 * bad:g} % bad annotators" if bad else "")
    sizes = [row["models"] for row in found if row["policy"] == "uniform"]
    report = Report(
        experiment="policies",
        settings={
            "source": source, "models": sizes, "bad": bad, "top": top, "floor": floor, "repeats": repeats, "seed": seed,
        },
        results={"policies": found},
        tables=[_table(found, f"Votes that an arena needs · {source}, {repeats} arenas", top)],
        notes=[
            "Ranking: votes from which the rank correlation (Spearman) with the truth stays above .95.",
            f"Top {top}: votes from which they stay decided, with a probability of .95.",
            "Medians. ×: votes relative to uniform pairs in the same arena, median and quartiles.",
        ],
        chart={},
        seconds=time.perf_counter() - started,
    )  # fmt: skip
    publish(report, output_format, None)


def _arenas(
    file: Path | None, world: list[int], bad: float, top: int, stages: Stages
) -> list[Callable[[int], PooledArena]]:
    """Return a function from seeds to arenas for each size asked for, or for the file."""
    if file is None:
        if min(world) <= max(top, FEWEST_MODELS - 1):
            raise BadInputError(f"--world must be at least {max(top + 1, FEWEST_MODELS)} models, is {min(world)}")
        return [partial(simulated_arena, n_models=models, bad=bad) for models in dict.fromkeys(world)]
    cells = read_indexed(file, stages).aggregate()
    stages.stage("fitting")
    arena = fitted_arena(cells)
    if len(arena.score) <= top:
        raise BadInputError(f"{file}: {len(arena.score)} model(s) have a score; --top {top} needs more")
    return [partial(_same, arena)]


def _same(arena: PooledArena, _seed: int) -> PooledArena:
    return arena


def _part(share: Progress | None, done: int, parts: int) -> Progress | None:
    return None if share is None else lambda of_part: share((done + of_part) / parts)


def _table(rows: Rows, title: str, top: int) -> Table:
    return table(
        title,
        rows,
        {
            "Models": word("models"), "Policy": word("policy"), "Ranking": number("ranking", 0), "×": _ratio("ranking"),
            f"Top {top}": number("top", 0), "× ": _ratio("top"), "Wrong": percent("wrong"),
        },
        text=["Policy"],
    )  # fmt: skip


def _ratio(key: str) -> Callable[[Row], str]:
    return lambda row: f"{row[f'{key}_ratio']:.2f} ({row[f'{key}_low']:.2f} to {row[f'{key}_high']:.2f})"
