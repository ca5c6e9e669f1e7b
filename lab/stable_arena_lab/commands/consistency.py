import time
from dataclasses import asdict
from typing import Annotated

import typer

from app.cli.progress import showing_stages
from stable_arena_lab.commands.charts import Spec, axis, colours, layer, panel, side_by_side
from stable_arena_lab.commands.options import (
    FigureOption,
    FileArgument,
    FormatOption,
    MinVotesOption,
    ProcessesOption,
    SeedOption,
    ShufflesOption,
    SimulatedOption,
)
from stable_arena_lab.commands.report import Report, Row, Rows, Table, check_figure, number, publish, table, word
from stable_arena_lab.commands.sources import open_source
from stable_arena_lab.consistency import GROUP, PAPER_UNNORMALISED, Convergence, compare_starts
from stable_arena_lab.descent import PAPER_STEPS, VARIANTS
from stable_arena_lab.methods import ELO_SHUFFLES

SHOWN_STEPS = (0, 10, 30, 100, 300, 1_000, 2_000)


def consistency(
    file: FileArgument = None,
    simulated: SimulatedOption = False,
    repeats: Annotated[int, typer.Option(min=1, help=f"Groups of {GROUP} random starts.")] = 100,
    steps: Annotated[int, typer.Option(min=1, help="Of the paper's gradient descent.")] = PAPER_STEPS,
    min_votes: MinVotesOption = 50,
    shuffles: ShufflesOption = ELO_SHUFFLES,
    seed: SeedOption = 0,
    processes: ProcessesOption = 2,
    output_format: FormatOption = "table",
    figure: FigureOption = None,
) -> None:
    """Run the paper's gradient descent from random starts and compare the rankings (the am-ELO paper's Figure 5)."""
    check_figure(figure)
    started = time.perf_counter()
    with showing_stages() as stages:
        source = open_source(file, simulated=simulated, min_votes=min_votes, stages=stages)
        stages.stage("descending")
        found = compare_starts(
            source.arena(seed),
            groups=repeats, seed=seed, steps=steps, shuffles=shuffles, processes=processes, progress=stages.share,
        )  # fmt: skip
    report = Report(
        experiment="consistency",
        settings={**source.settings, "repeats": repeats, "steps": steps, "shuffles": shuffles, "seed": seed},
        results={
            "looks": [asdict(look) for look in found.looks],
            "endings": [asdict(ending) for ending in found.endings],
            "references": [asdict(reference) for reference in found.references],
        },
        tables=_tables(found, source.title),
        notes=[
            f"Groups of {GROUP} random starts. Consistency: share of the pairs of models ordered alike.",
            f"Paper: one group without normalisation, which ended at {PAPER_UNNORMALISED}: two alike, three reversed.",
        ],
        chart=_chart(found),
        seconds=time.perf_counter() - started,
    )
    publish(report, output_format, figure)


def _tables(found: Convergence, title: str) -> list[Table]:
    looks = [asdict(look) for look in found.looks if look.step in _shown(found)]
    columns = {
        "Variant": word("variant"),
        "Loss": number("loss", 5),
        "Consistency": number("consistency", 3),
        "Least": number("lowest", 3),
        "Most": number("highest", 3),
    }
    ends = {**columns, "Groups": word("groups"), "Share of groups that end at": _shares}
    references = {
        "Method": word("method"),
        "Loss": number("loss", 5),
        "Consistency": number("consistency", 3),
    }
    return [
        table(
            f"By step · {title}", looks, {"Variant": columns["Variant"], "Step": word("step"), **columns},
            text=["Variant"],
        ),
        table("At the end", [asdict(ending) for ending in found.endings], ends, text=["Variant"]),
        table(
            "Without random starts: five sets of shuffles for Elo, five orders of the votes for the others",
            [asdict(reference) for reference in found.references], references, text=["Method"],
        ),
    ]  # fmt: skip


def _shown(found: Convergence) -> set[int]:
    """Return the steps of the snapshots nearest to the steps shown."""
    steps = {look.step for look in found.looks}
    return {min(steps, key=lambda step: abs(step - wanted)) for wanted in SHOWN_STEPS}


def _shares(row: Row) -> str:
    return ", ".join(f"{value}: {100 * share:.0f} %" for value, share in row["share_of"].items())


def _chart(found: Convergence) -> Spec:
    looks: Rows = [{**asdict(look), "shown": look.step + 1} for look in found.looks]
    ends = [
        {"variant": ending.variant, "value": value, "share": share}
        for ending in found.endings
        for value, share in ending.share_of.items()
    ]
    step = axis("shown", "step + 1", type="log")
    colour = colours("variant", "variant", VARIANTS)
    band = layer("area", channels={"y": axis("lowest", "consistency"), "y2": {"field": "highest"}}, opacity=0.15)
    line = layer("line", channels={"y": axis("consistency", "consistency")})
    value = {"field": "value", "type": "nominal", "title": "consistency at the end", "axis": {"labelAngle": 0}}
    return side_by_side(
        panel(looks, "Loss", layer("line"), x=step, y=axis("loss", "−ℓ per vote"), color=colour),
        panel(looks, "Consistency: mean, least and most", band, line, x=step, color=colour),
        panel(
            ends, "Where groups end", layer("bar"), x=value, y=axis("share", "share of groups", zero=True),
            color=colour, xOffset={"field": "variant", "sort": list(VARIANTS)},
        ),
    )  # fmt: skip
