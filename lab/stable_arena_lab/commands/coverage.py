import time
from dataclasses import asdict
from typing import Annotated

import typer

from app.cli.progress import showing_stages
from stable_arena_lab.commands.options import FileArgument, FormatOption, ProcessesOption, SeedOption
from stable_arena_lab.commands.report import Report, Row, Rows, Table, number, percent, publish, table, word
from stable_arena_lab.commands.sources import open_source
from stable_arena_lab.coverage import WORLDS, World, cover, predict


def coverage(
    file: FileArgument = None,
    repeats: Annotated[int, typer.Option(min=1, help="Crowds of each kind to draw, or splits of the file.")] = 40,
    crowds: Annotated[
        int | None, typer.Option(min=1, max=len(WORLDS), help="Only the first so many kinds of crowds.")
    ] = None,
    seed: SeedOption = 0,
    processes: ProcessesOption = 2,
    output_format: FormatOption = "table",
) -> None:
    """Compare the methods: what their intervals hold, the scale of their scores, and the loss on held-out votes.

    Intervals and scale in simulated crowds, the loss on a file.
    """
    started, seeds = time.perf_counter(), range(seed, seed + repeats)
    rows: list[Row] = []
    with showing_stages() as stages:
        if file is not None:
            source = open_source(file, simulated=False, min_votes=0, stages=stages)
            stages.stage("predicting")
            found = predict(source.arena, seeds, processes=processes, progress=stages.share)
            rows, title = [asdict(each) for each in found], f"Held-out votes · {source.title}"
        else:
            title = f"Simulated crowds · {repeats} of each kind"
            for world in WORLDS[:crowds]:
                stages.stage(describe(world))
                found_here = cover(world, seeds, processes=processes, progress=stages.share)
                rows += [{**asdict(each), "world": describe(world)} for each in found_here]
    report = Report(
        experiment="coverage",
        settings={"source": "simulated" if file is None else file.name, "repeats": repeats, "seed": seed},
        results={"crowds" if file is None else "held_out": rows},
        tables=[_crowds(title, rows) if file is None else _held_out(title, rows)],
        notes=["Ends: the two best and two worst. Scale: slope on the true scores, nothing rescaled; 1 is right."]
        if file is None
        else ["Loss: −ℓ per held-out vote. Lead: less that of m-ELO; below 0 it predicts better."],
        chart={},
        seconds=time.perf_counter() - started,
    )
    publish(report, output_format, None)


def describe(world: World) -> str:
    """Return a crowd in a few words."""
    parts = [f"{world.annotators} × {world.votes_each}"]
    default = World(1, 1)
    for name, words in (
        ("models", "{} models"), ("score_sd", "scores sd {:g}"), ("ability_sd", "abilities sd {:g}"),
        ("coins", "{:.0%} coins"), ("neighbours", "{:.0%} of battles between neighbours"), ("pareto", "Pareto votes"),
        ("taste_sd", "tastes sd {:g}"), ("lean_sd", "leans sd {:g}"),
    ):  # fmt: skip
        if getattr(world, name) != getattr(default, name):
            parts.append(words.format(getattr(world, name)))
    return ", ".join(parts)


def _crowds(title: str, rows: Rows) -> Table:
    return table(
        title,
        rows,
        {
            "Crowd": word("world"), "Method": word("method"), "Every": percent("every"), "Ends": percent("ends"),
            "Pairs": percent("pairs"),
            "Scale": number("scale", 3), "±": number("scale_se", 3), "Error": number("error", 1),
            "Seconds": number("seconds", 2), "Failed": word("failed"),
        },
        text=["Crowd", "Method"],
    )  # fmt: skip


def _held_out(title: str, rows: Rows) -> Table:
    return table(
        title,
        rows,
        {
            "Method": word("method"), "Loss": number("loss", 5), "Lead": number("lead", 5, sign=True),
            "±": number("lead_se", 5), "Failed": word("failed"),
        },
        text=["Method"],
    )  # fmt: skip
