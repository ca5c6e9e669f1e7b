import time
from dataclasses import asdict
from typing import Annotated

import typer

from app.cli.progress import showing_stages
from app.errors import BadInputError
from stable_arena_lab.attacks.arena import Setup
from stable_arena_lab.battles.sealed import CHOICES, measure_gains
from stable_arena_lab.commands.charts import Spec, axis, category, colours, layer, panel, side_by_side
from stable_arena_lab.commands.options import FigureOption, FormatOption, ProcessesOption, SeedOption
from stable_arena_lab.commands.report import Report, Row, Rows, Table, check_figure, percent, publish, table, word
from stable_arena_lab.defences.gains import BOARDS

PLACES = [1, 10, 17]


def sealed(
    annotators: Annotated[int, typer.Option(min=10, help="Annotators, including attackers.")] = 200,
    share: Annotated[float, typer.Option(min=0, max=0.5, help="Share of annotators who attack.")] = 0.05,
    votes_each: Annotated[int, typer.Option(min=3, help="Votes of every annotator.")] = 51,
    target: Annotated[
        list[int] | None,
        typer.Option(
            help="Place of the target, counted from the last, which is 0; repeat it.", show_default="1, 10, 17"
        ),
    ] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Arenas to draw.")] = 30,
    seed: SeedOption = 0,
    processes: ProcessesOption = 2,
    output_format: FormatOption = "table",
    figure: FigureOption = None,
) -> None:
    """Attack with battles that the attackers choose, and with battles that the service draws."""
    check_figure(figure)
    started = time.perf_counter()
    setup, targets = Setup(n_annotators=annotators, votes_each=votes_each, share=share), target or PLACES
    if not 0 <= min(targets) <= max(targets) < setup.n_models:
        raise BadInputError(f"--target must be from 0 to {setup.n_models - 1}")
    with showing_stages() as stages:
        stages.stage("attacking")
        found = measure_gains(
            setup, seeds=range(seed, seed + repeats), targets=targets, processes=processes, progress=stages.share
        )
    rows: list[Row] = [asdict(row) for row in found]
    title = f"{annotators:,} annotators, {votes_each} votes each, {100 * share:g} % attackers, {repeats} arenas"
    report = Report(
        experiment="sealed",
        settings={**asdict(setup), "targets": targets, "repeats": repeats, "seed": seed},
        results={"gains": rows},
        tables=[_table(rows, title)],
        notes=[
            "Ranks (Elo points) that the target gains, means. Shown: battles of the attackers that show it, %.",
            "chosen: the attackers choose their battles. Else the service draws all battles by this policy.",
        ],
        chart=_chart(rows),
        seconds=time.perf_counter() - started,
    )
    publish(report, output_format, figure)


def _table(rows: Rows, title: str) -> Table:
    lines: dict[tuple[str, int, str], dict[str, object]] = {}
    for row in rows:
        own = lines.setdefault((row["attack"], row["target"], row["choice"]), dict(row))
        own[row["board"]] = f"{row['ranks']:+.1f} ({row['points']:+.0f})"
    return table(
        f"What attackers gain · {title}",
        list(lines.values()),
        {
            "Attack": word("attack"), "Place": word("target"), "Battles": word("choice"), "Shown": percent("shown"),
            **{board: word(board) for board in BOARDS},
        },
        text=["Attack", "Battles"],
    )  # fmt: skip


def _chart(rows: Rows) -> Spec:
    labelled: list[Row] = [{**row, "case": f"{row['attack']}, place {row['target']}"} for row in rows]
    return side_by_side(
        *(
            panel(
                [row for row in labelled if row["board"] == board], board, layer("point", filled=True, size=40),
                x=axis("ranks", "ranks gained", zero=True),
                y=category("case", None, list(dict.fromkeys(row["case"] for row in labelled))),
                color=colours("choice", "battles", CHOICES),
            )
            for board in BOARDS
        )
    )  # fmt: skip
