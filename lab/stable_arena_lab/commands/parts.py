import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated

import typer

from app.cli.progress import showing_stages
from app.errors import BadInputError
from stable_arena_lab.commands.options import FormatOption, ProcessesOption, SeedOption
from stable_arena_lab.commands.report import Report, Row, Table, publish, table, word
from stable_arena_lab.losses import FIGURES, WORLDS, Loss, measure_losses
from stable_arena_lab.parts import PARTS

CLEAR = 3.0
"""Standard errors beyond which a change is not chance among so many."""


def parts(
    part: Annotated[list[str] | None, typer.Option(help="Only these parts; repeat it.", show_default="all")] = None,
    world: Annotated[list[str] | None, typer.Option(help="Only these worlds; repeat it.", show_default="all")] = None,
    repeats: Annotated[int, typer.Option(min=2, help="Draws of each world.")] = 12,
    seed: SeedOption = 0,
    processes: ProcessesOption = 2,
    output_format: FormatOption = "table",
) -> None:
    """Take each part out of the engine: what attackers gain, who is found and wronged, what intervals hold.

    Each cell is of the world in which the figure is worse by most standard errors.
    """
    started, some, worlds = time.perf_counter(), part or list(PARTS), world or list(WORLDS)
    if unknown := ({*some} - {*PARTS}) | ({*worlds} - {*WORLDS}):
        raise BadInputError(f"unknown: {', '.join(sorted(unknown))}; known are {', '.join((*PARTS, *WORLDS))}")
    with showing_stages() as stages:
        stages.stage("taking parts out")
        seeds = range(seed, seed + repeats)
        losses = measure_losses(some, worlds, seeds, processes=processes, progress=stages.share)
    whole = {(one.world, one.figure): one for one in losses}.values()
    report = Report(
        experiment="parts",
        settings={"repeats": repeats, "seed": seed},
        results={"losses": [asdict(one) for one in losses]},
        tables=[_lost(losses, some, repeats), _whole(list(whole), worlds)],
        notes=[
            "Change without the part ± its standard error, in the world where it is most clearly for the worse.",
            f"Worse, better: figures and worlds beyond {CLEAR:g} standard errors, of {len(whole)}.",
        ],
        chart={},
        seconds=time.perf_counter() - started,
    )
    publish(report, output_format, None)


def _lost(losses: list[Loss], some: list[str], repeats: int) -> Table:
    """Return one line for each part, with the clearest harm to each figure in a column."""
    lines: list[Row] = []
    for part in some:
        mine = [one for one in losses if one.part == part]
        worse, better = (sum(sign * one.errors > CLEAR for one in mine) for sign in (1.0, -1.0))
        line: dict[str, object] = {"part": part, "worse": worse, "better": better}
        for figure in FIGURES:
            harmed = [one for one in mine if one.figure == figure and one.errors > 0.0]
            line[figure] = _show(max(harmed, key=lambda one: one.errors)) if harmed else "–"
        lines.append(line)
    columns = {
        "Without": word("part"), **{name.capitalize(): word(name) for name in FIGURES if name != "width"},
        "Worse": word("worse"), "Better": word("better"),
    }  # fmt: skip
    return table(f"What is lost without a part · {repeats} draws of each world", lines, columns, text=["Without"])


def _show(one: Loss) -> str:
    digits = {"ranks": 2, "found": 2, "error": 1}.get(one.figure, 3)
    return f"{one.change:+.{digits}f} ± {one.se or 0.0:.{digits}f} ({one.world})"


def _whole(losses: list[Loss], worlds: list[str]) -> Table:
    """Return one line for each world, with the figures of the whole engine."""
    found = {(one.world, one.figure): one.whole for one in losses}

    def cell(figure: str) -> Callable[[Row], str]:
        def show(row: Row) -> str:
            value = found.get((row["world"], figure))
            return "–" if value is None else f"{value:.3g}"

        return show

    lines: list[Row] = [{"world": world} for world in worlds]
    columns = {"World": word("world"), **{name.capitalize(): cell(name) for name in FIGURES}}
    return table("The whole engine", lines, columns, text=["World"])
