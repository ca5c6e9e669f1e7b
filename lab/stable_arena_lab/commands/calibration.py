import time
from dataclasses import asdict
from typing import Annotated

import typer

from app.cli.progress import showing_stages
from app.errors import BadInputError
from app.rating.settings import PairPolicy
from stable_arena_lab.battles.calibration import REFERENCE, find_least_votes, measure_calibration
from stable_arena_lab.commands.charts import Spec, axis, colours, layer, panel, side_by_side
from stable_arena_lab.commands.options import FigureOption, FormatOption, ProcessesOption, SeedOption
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

VOTES, SHARES = [15, 20, 25, 30, 40, REFERENCE], [0.0, 0.2, 0.5, 0.9]
FEWEST = 2  # points that make a curve


def calibration(
    votes: Annotated[
        list[int] | None, typer.Option(help="Votes of new annotators; repeat it.", show_default="15 to 51")
    ] = None,
    share: Annotated[
        list[float] | None,
        typer.Option(help="Share of calibration battles, beside none; repeat it.", show_default="0.2, 0.5, 0.9"),
    ] = None,
    policy: Annotated[PairPolicy, typer.Option(help="Policy of the other battles.")] = "mixed",
    repeats: Annotated[int, typer.Option(min=1, help="Arenas to draw.")] = 100,
    seed: SeedOption = 0,
    processes: ProcessesOption = 2,
    output_format: FormatOption = "table",
    figure: FigureOption = None,
) -> None:
    """Find bad annotators by calibration battles: how many votes that takes, and how far δ can fall."""
    check_figure(figure)
    numbers, shares = sorted({*(votes or VOTES)}), sorted({0.0, *(share or SHARES)})
    if min(numbers) < 1 or len(numbers) < FEWEST:
        raise BadInputError("--votes must be given at least twice, each 1 or more")
    if not 0.0 <= min(shares) <= max(shares) <= 1.0:
        raise BadInputError("--share must lie between 0 and 1")
    started = time.perf_counter()
    with showing_stages() as stages:
        stages.stage("voting")
        found = measure_calibration(
            seeds=range(seed, seed + repeats), votes=numbers, shares=shares, policy=policy, processes=processes,
            progress=stages.share,
        )  # fmt: skip
    rows: list[Row] = [asdict(row) for row in found]
    least: list[Row] = [asdict(row) for row in find_least_votes(found)]
    report = Report(
        experiment="calibration",
        settings={"votes": numbers, "shares": shares, "policy": policy, "repeats": repeats, "seed": seed},
        results={"detections": rows, "least_votes": least},
        tables=[_detections(rows, policy, repeats), _least(least)],
        notes=[
            "Coins answer at random, contrary annotators vote the opposite of their opinion. %.",
            f"Least votes: to find as many, and to wrong no more, than without calibration at {REFERENCE} votes.",
        ],
        chart=_chart(rows),
        seconds=time.perf_counter() - started,
    )
    publish(report, output_format, figure)


def _detections(rows: Rows, policy: PairPolicy, repeats: int) -> Table:
    return table(
        f"New annotators that the service's rule flags · {policy}, {repeats} arenas",
        rows,
        {
            "Calibration": percent("calibration"), "Votes": word("votes"), "Coins": percent("coins"),
            "Contrary": percent("contrary"), "Honest": percent("wronged"),
        },
    )  # fmt: skip


def _least(rows: Rows) -> Table:
    return table(
        "Least votes for the same error rates",
        rows,
        {
            "Calibration": percent("calibration"), "Coins": number("coins", 0), "Contrary": number("contrary", 0),
            "Honest": number("wronged", 0), "All": number("all", 0),
        },
    )  # fmt: skip


def _chart(rows: Rows) -> Spec:
    titles = {"coins": "Coins found", "contrary": "Contrary annotators found", "wronged": "Honest annotators flagged"}
    shown: list[Row] = [{**row, "share": f"{100 * row['calibration']:g} %"} for row in rows]
    return side_by_side(
        *(
            panel(
                shown, title, layer("line", point=True), x=axis("votes", "votes"), y=axis(key, "share"),
                color=colours("share", "calibration", list(dict.fromkeys(row["share"] for row in shown))),
            )
            for key, title in titles.items()
        )
    )  # fmt: skip
