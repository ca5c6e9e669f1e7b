import time
from dataclasses import asdict
from typing import Annotated

import typer

from app.cli.progress import showing_stages
from app.errors import BadInputError
from stable_arena_lab.commands.charts import Spec, axis, category, colours, layer, panel, side_by_side
from stable_arena_lab.commands.options import FigureOption, FormatOption, ProcessesOption, SeedOption
from stable_arena_lab.commands.report import Report, Row, Rows, Table, check_figure, publish, table, word
from stable_arena_lab.defences.habits import BAD, WORLDS, Crowd, judge_crowds

SIZES = (51, 200)


def habits(
    annotators: Annotated[int, typer.Option(min=4, help="Annotators, including bad ones.")] = 42,
    votes_each: Annotated[
        list[int] | None, typer.Option(min=1, help="Votes of every annotator; repeat it.", show_default="51, 200")
    ] = None,
    score_sd: Annotated[
        list[float] | None,
        typer.Option(min=0, help="Standard deviation of the scores, Elo points; repeat it.", show_default="140, 70"),
    ] = None,
    share: Annotated[float, typer.Option(min=0, max=0.5, help="Share of bad annotators.")] = 0.1,
    bad: Annotated[
        list[str] | None, typer.Option(help=f"Only these bad annotators: {', '.join(BAD)}; repeat it.")
    ] = None,
    world: Annotated[list[str] | None, typer.Option(help="Only these crowds, by name; repeat it.")] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Crowds to draw of each kind.")] = 30,
    seed: SeedOption = 0,
    processes: ProcessesOption = 2,
    output_format: FormatOption = "table",
    figure: FigureOption = None,
) -> None:
    """Judge honest annotators with habits of their own, and bad ones among them, by ε alone and by the service."""
    check_figure(figure)
    started, worlds, kinds = time.perf_counter(), world or list(WORLDS), bad or list(BAD)
    if unknown := ({*worlds} - {*WORLDS}) | ({*kinds} - {*BAD}):
        raise BadInputError(f"unknown: {', '.join(sorted(unknown))}; known are {', '.join((*WORLDS, *BAD))}")
    crowds = [
        Crowd(name, kind, annotators, each, sd, share)
        for sd in score_sd or (140.0, 70.0)
        for each in votes_each or SIZES
        for name in worlds
        for kind in ("", *(kinds if name == "alike" or bad else ["coin"]))
    ]
    with showing_stages() as stages:
        stages.stage("judging")
        found = judge_crowds(crowds, seeds=range(seed, seed + repeats), processes=processes, progress=stages.share)
    rows: list[Row] = [{**one.pop("crowd"), **one} for one in map(asdict, found)]
    report = Report(
        experiment="habits",
        settings={"annotators": annotators, "share": share, "repeats": repeats, "seed": seed},
        results={"rows": rows},
        tables=[_table(rows, f"{annotators:,} annotators, {repeats} crowds of each kind")],
        chart=_chart(rows),
        notes=["% of the bad annotators found / % of the honest ones wronged."],
        seconds=time.perf_counter() - started,
    )
    publish(report, output_format, figure)


def _chart(rows: Rows) -> Spec:
    honest: list[Row] = [{**row, "crowd": f"{row['world']}, {row['votes_each']}"} for row in rows if not row["bad"]]
    return side_by_side(
        *(
            panel(
                [row for row in honest if row["score_sd"] == sd], f"score sd {sd:g}",
                layer("point", filled=True, size=40), x=axis("wronged", "honest flagged", zero=True),
                y=category("crowd", None, list(dict.fromkeys(row["crowd"] for row in honest))),
                color=colours("rule", "rule", list(dict.fromkeys(row["rule"] for row in honest))),
            )
            for sd in dict.fromkeys(row["score_sd"] for row in honest)
        )
    )  # fmt: skip


def _table(rows: Rows, title: str) -> Table:
    """Return one line for each crowd, one column for each rule."""
    lines: dict[tuple[object, ...], dict[str, object]] = {}
    for row in rows:
        key = row["score_sd"], row["votes_each"], row["world"], row["bad"]
        found = "" if row["found"] is None else f"{100 * row['found']:.0f} / "
        lines.setdefault(key, dict(row))[row["rule"]] = f"{found}{100 * (row['wronged'] or 0.0):.2f}"
    rules = list(dict.fromkeys(row["rule"] for row in rows))
    return table(
        f"Found / wronged, % · {title}",
        list(lines.values()),
        {
            "sd": word("score_sd"), "Votes": word("votes_each"), "Honest crowd": word("world"), "Bad": word("bad"),
            **{rule: word(rule) for rule in rules},
        },
        text=["Honest crowd", "Bad"],
    )  # fmt: skip
