import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from app.cli.experiments.charts import Spec, axis, category, colours, layer, panel, side_by_side
from app.cli.experiments.options import FigureOption, FileArgument, FormatOption, ProcessesOption, SeedOption
from app.cli.experiments.report import Report, Row, Rows, Table, check_figure, publish, table, word
from app.cli.experiments.vote_files import open_named
from app.cli.progress import Stages, showing_stages
from app.errors import BadInputError
from app.rating.simulation.parallel import Progress
from app.rating.simulation.policy_comparison import PolicyRow, compare_policies
from app.rating.simulation.pooled_arena import PooledArena, fitted_arena, simulated_arena
from app.rating.simulation.votes_needed import COMPARED

FEWEST_MODELS = 4  # more than are to be decided


def simulate(
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
    figure: FigureOption = None,
) -> None:
    """Simulate an arena like yours under every battle policy: how many votes its ranking takes."""
    check_figure(figure)
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
    rows: list[Row] = [asdict(row) for row in found]
    source = file.name if file else "simulated" + (f", {100 * bad:g} % bad annotators" if bad else "")
    report = Report(
        experiment="battles",
        settings={
            "source": source, "models": [row["models"] for row in rows if row["policy"] == "uniform"], "bad": bad,
            "top": top, "floor": floor, "repeats": repeats, "seed": seed,
        },
        results={"policies": rows},
        tables=[_table(rows, source, top)],
        notes=[
            "Ranking: votes from which the rank correlation (Spearman) with the truth stays above .95.",
            f"Top {top}: votes from which they stay decided, with a probability of .95.",
            "Medians. ×: votes relative to uniform pairs in the same arena, median and quartiles.",
        ],
        chart=_chart(rows, top),
        seconds=time.perf_counter() - started,
    )  # fmt: skip
    publish(report, output_format, figure)


def _arenas(
    file: Path | None, world: list[int], bad: float, top: int, stages: Stages
) -> list[Callable[[int], PooledArena]]:
    """Return a function from seeds to arenas for each size asked for, or for the file."""
    if file is None:
        if min(world) <= max(top, FEWEST_MODELS - 1):
            raise BadInputError(f"--world must be at least {max(top + 1, FEWEST_MODELS)} models, is {min(world)}")
        return [partial(simulated_arena, n_models=models, bad=bad) for models in dict.fromkeys(world)]
    named = open_named(file, stages)
    stages.stage("fitting")
    arena = fitted_arena(named.cells)
    if len(arena.score) <= top:
        raise BadInputError(f"{file}: {len(arena.score)} model(s) have a score; --top {top} needs more")
    return [partial(_same, arena)]


def _same(arena: PooledArena, _seed: int) -> PooledArena:
    return arena


def _part(share: Progress | None, done: int, parts: int) -> Progress | None:
    return None if share is None else lambda of_part: share((done + of_part) / parts)


def _table(rows: Rows, source: str, top: int) -> Table:
    return table(
        f"Votes that an arena needs · {source}, {rows[0]['arenas']} arenas",
        rows,
        {
            "Models": word("models"),
            "Policy": word("policy"),
            "Ranking": _votes("ranking"),
            "×": _ratio("ranking"),
            f"Top {top}": _votes("top"),
            "× ": _ratio("top"),
            "Wrong": lambda row: f"{100 * row['wrong']:.0f} %",
        },
        text=["Policy"],
    )


def _votes(key: str) -> Callable[[Row], str]:
    return lambda row: f"{row[key]:,.0f}"


def _ratio(key: str) -> Callable[[Row], str]:
    return lambda row: f"{row[f'{key}_ratio']:.2f} ({row[f'{key}_low']:.2f} to {row[f'{key}_high']:.2f})"


def _chart(rows: Rows, top: int) -> Spec:
    names = list(dict.fromkeys(row["policy"] for row in rows))
    titles = {"ranking": "Until the ranking is right", "top": f"Until the top {top} are decided"}
    long: list[dict[str, Any]] = [{**row, "size": f"{row['models']} models"} for row in rows]
    return side_by_side(
        *(
            panel(
                long, title, layer("point", filled=True, size=40),
                x=axis(f"{key}_ratio", "votes relative to uniform pairs", type="log"),
                y=category("policy", None, names),
                color=colours("size", "arena", list(dict.fromkeys(row["size"] for row in long))),
            )
            for key, title in titles.items()
        )
    )  # fmt: skip
