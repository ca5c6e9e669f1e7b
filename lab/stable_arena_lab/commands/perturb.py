import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from app.cli.progress import showing_stages
from app.errors import BadInputError
from stable_arena_lab.commands.charts import Spec, axis, category, colours, layer, lines, panel, row_of, stacked
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
from stable_arena_lab.commands.report import (
    Report,
    Row,
    Rows,
    Table,
    check_figure,
    number,
    percent,
    publish,
    table,
    word,
)
from stable_arena_lab.commands.sources import open_source
from stable_arena_lab.methods import METHODS
from stable_arena_lab.perturbation import RULES, SHARES, STRATEGIES, WITH_ABILITIES, Strategy, perturb_and_rate

MOST = 50
ELO_SHUFFLES = 200
"""Fewer than the paper's 1,000, because Elo runs for every strategy and share; 200 leave an error of 0.5 points."""


SCATTERED = 0.3
"""Share of perturbed annotators at which the figure shows every ability."""

_CASE: dict[str, Callable[[Row], str]] = {
    "Strategy": word("strategy"),
    "%": lambda row: f"{100 * row['share']:.0f}",
    "Method": word("method"),
}


def perturb(
    file: FileArgument = None,
    simulated: SimulatedOption = False,
    strategy: Annotated[
        list[str] | None, typer.Option(help=f"Only this one: {', '.join(STRATEGIES)}; repeat it for several.")
    ] = None,
    share: Annotated[
        list[int] | None, typer.Option(help="Percentage of the annotators, 0 to 50; repeat it for several.")
    ] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Draws of the annotators (and of the arena).")] = 10,
    min_votes: MinVotesOption = 50,
    shuffles: ShufflesOption = ELO_SHUFFLES,
    seed: SeedOption = 0,
    processes: ProcessesOption = 2,
    output_format: FormatOption = "table",
    figure: FigureOption = None,
) -> None:
    """Make annotators vote badly; see which ranking holds and who is found (the am-ELO paper's Figures 6 and 7)."""
    check_figure(figure)
    strategies = _strategies(strategy)
    shares = _shares(share)
    started = time.perf_counter()
    with showing_stages() as stages:
        source = open_source(file, simulated=simulated, min_votes=min_votes, stages=stages)
        stages.stage("perturbing")
        stabilities, detections, points = perturb_and_rate(
            source.arena, range(seed, seed + repeats),
            strategies=strategies, shares=shares, shuffles=shuffles, processes=processes, progress=stages.share,
        )  # fmt: skip
    stability, detection = [asdict(row) for row in stabilities], [asdict(row) for row in detections]
    abilities = [asdict(point) for point in points]
    report = Report(
        experiment="perturb",
        settings={
            **source.settings, "strategies": strategies, "shares": shares,
            "repeats": repeats, "shuffles": shuffles, "seed": seed,
        },
        results={"stability": stability, "detection": detection, "abilities": abilities},
        tables=[_stability_table(stability, source.title), _detection_table(detection)],
        notes=[
            "Left: inconsistency (1 − consistency) as a percentage of m-ELO's. Truth: agreement with the true order.",
            "ε = 0.21 of the mean is the paper's 0.005 where 42 abilities sum to 1.",
            "The JSON document has every annotator's ability before and after, of the first draw (Figure 6).",
            "Paper: inconsistency cut to 30 % of m-ELO's (random, flip, mixed), F1 90 % at ε = 0 and 95 % at 0.005.",
        ],
        chart=_chart(stability, detection, abilities, strategies),
        seconds=time.perf_counter() - started,
    )  # fmt: skip
    publish(report, output_format, figure)


def _strategies(names: Sequence[str] | None) -> tuple[Strategy, ...]:
    chosen = tuple(each for each in STRATEGIES if not names or each in names)
    if names and len(chosen) < len(set(names)):
        raise BadInputError(f"--strategy must be one of {', '.join(STRATEGIES)}")
    return chosen


def _shares(percentages: Sequence[int] | None) -> tuple[float, ...]:
    if not percentages:
        return SHARES
    if any(not 0 <= each <= MOST for each in percentages):
        raise BadInputError(f"--share must be 0 to {MOST}, percent of the annotators")
    return tuple(each / 100 for each in dict.fromkeys(percentages))


def _stability_table(rows: Rows, title: str) -> Table:
    return table(
        f"Ranking against the unperturbed one · {title}",
        rows,
        {
            **_CASE,
            "Consistency": number("consistency", 3),
            "±": number("consistency_sd", 3),
            "Left": percent("left"),
            "Truth": number("truth", 3),
            "Answers": lambda row: f"{row['answered']} of {row['repeats']}",
        },
        text=["Strategy", "Method"],
    )


def _detection_table(rows: Rows) -> Table:
    return table(
        "Finding the perturbed",
        [row for row in rows if row["share"] > 0],
        {
            **_CASE,
            "ε": word("rule"),
            "F1": number("f1", 3),
            "±": number("f1_sd", 3),
            "Found %": percent("found"),
            "Wronged %": percent("wronged"),
        },
        text=["Strategy", "Method", "ε"],
    )


def _chart(stability: Rows, detection: Rows, abilities: Rows, strategies: Sequence[Strategy]) -> Spec:
    share = axis("share", "share of annotators perturbed", zero=True)
    kept, found, scattered = [], [], []
    some = min({row["share"] for row in stability}, key=lambda each: abs(each - SCATTERED))
    for strategy in strategies:
        kept.append(
            panel(
                [row for row in stability if row["strategy"] == strategy], strategy, lines(),
                x=share, y=axis("consistency", "ranking consistency"), color=colours("method", "method", METHODS),
            )
        )  # fmt: skip
        found.append(
            panel(
                [row for row in detection if row["strategy"] == strategy and row["share"] > 0],
                f"{strategy}: who is found", lines(),
                x=share, y=axis("f1", "F1, plain (robust dashed)", domain=[0, 1]),
                color=colours("rule", "ε", list(RULES)),
                strokeDash={**category("method", None, WITH_ABILITIES), "legend": None},
            )
        )  # fmt: skip
        scattered.append(
            panel(
                [
                    {**row, "kind": "perturbed" if row["perturbed"] else "as before"}
                    for row in abilities
                    if (row["strategy"], row["share"], row["method"]) == (strategy, some, "am-elo robust")
                ],
                f"{strategy}, {100 * some:.0f} %: abilities", layer("point", size=15),
                x=axis("before", "ability before"), y=axis("after", "ability after"),
                color=colours("kind", "annotator", ("as before", "perturbed")),
            )
        )  # fmt: skip
    return stacked(row_of(*kept), row_of(*found), row_of(*scattered))
