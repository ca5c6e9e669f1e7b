import time
from dataclasses import asdict
from typing import Annotated

import typer

from app.cli.progress import showing_stages
from app.errors import BadInputError
from stable_arena_lab.commands.charts import Spec, axis, category, colours, layer, panel, side_by_side
from stable_arena_lab.commands.options import FigureOption, FormatOption, ProcessesOption, SeedOption
from stable_arena_lab.commands.report import Report, Row, Rows, Table, check_figure, number, publish, table, word
from stable_arena_lab.defences.drift import BEHAVIOURS, LEVELS, Watch, watch_all

SIZES = (51, 200, 400)


def drift(
    behaviour: Annotated[
        list[str] | None, typer.Option(help="Only these annotators; repeat it.", show_default=", ".join(BEHAVIOURS))
    ] = None,
    votes_each: Annotated[
        list[int] | None, typer.Option(min=1, help="Votes of every annotator; repeat it.", show_default="51, 200, 400")
    ] = None,
    score_sd: Annotated[
        list[float] | None,
        typer.Option(min=0, help="Standard deviation of the scores, Elo points; repeat it.", show_default="140, 70"),
    ] = None,
    annotators: Annotated[int, typer.Option(min=1, help="Annotators in each crowd.")] = 40,
    repeats: Annotated[int, typer.Option(min=1, help="Crowds to draw of each kind.")] = 30,
    seed: SeedOption = 0,
    processes: ProcessesOption = 2,
    output_format: FormatOption = "table",
    figure: FigureOption = None,
) -> None:
    """Weigh the evidence that an ability changed: how often for steady annotators, and for those who changed."""
    check_figure(figure)
    started, wanted = time.perf_counter(), list(dict.fromkeys(behaviour or BEHAVIOURS))
    if unknown := [name for name in wanted if name not in BEHAVIOURS]:
        raise BadInputError(f"--behaviour must be one of {', '.join(BEHAVIOURS)}, is {unknown[0]}")
    watches = [
        Watch(name, each, sd, annotators)
        for name in wanted
        for each in votes_each or SIZES
        for sd in score_sd or (140.0, 70.0)
    ]
    with showing_stages() as stages:
        stages.stage("watching")
        found = watch_all(watches, seeds=range(seed, seed + repeats), processes=processes, progress=stages.share)
    rows: list[Row] = [{**{k: v for k, v in one.pop("watch").items() if k != "annotators"}, **one}
                       for one in map(asdict, found)]  # fmt: skip
    report = Report(
        experiment="drift",
        settings={"annotators": annotators, "repeats": repeats, "seed": seed},
        results={"alarms": rows},
        tables=[_table(rows, f"{repeats} crowds of {annotators:,} annotators")],
        notes=[
            "Share of annotators whose votes are so many times likelier with a change of the ability than without.",
            "Changes come at half of the votes. Time: median share of the votes before the change, where 100 is",
            "reached. ±: standard error.",
        ],
        chart=_chart(rows),
        seconds=time.perf_counter() - started,
    )
    publish(report, output_format, figure)


def _table(rows: Rows, title: str) -> Table:
    lines: dict[tuple[object, ...], dict[str, object]] = {}
    for row in rows:
        line = lines.setdefault((row["behaviour"], row["votes_each"], row["score_sd"]), dict(row))
        line[f"{row['level']:g}"] = f"{row['reached']:.3f} ± {row['reached_se'] or 0.0:.3f}"
        line["time"] = row["time"]
    return table(
        f"Ratios reached · {title}",
        list(lines.values()),
        {
            "Annotator": word("behaviour"), "Votes": word("votes_each"), "Score sd": number("score_sd", 0),
            **{f"{level:g} to 1": word(f"{level:g}") for level in LEVELS}, "Time": number("time", 2),
        },
        text=["Annotator"],
    )  # fmt: skip


def _chart(rows: Rows) -> Spec:
    shown: list[Row] = [
        {**row, "case": f"{row['votes_each']} votes, sd {row['score_sd']:g}"}
        for row in rows
        if row["level"] == LEVELS[-1]
    ]
    return side_by_side(
        panel(
            shown, f"A ratio of {LEVELS[-1]:g} reached", layer("point", filled=True, size=40),
            x=axis("reached", "share of annotators", zero=True),
            y=category("behaviour", None, list(dict.fromkeys(row["behaviour"] for row in shown))),
            color=colours("case", "case", list(dict.fromkeys(row["case"] for row in shown))),
        )
    )  # fmt: skip
