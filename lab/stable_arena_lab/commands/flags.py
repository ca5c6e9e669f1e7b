import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from app.cli.progress import showing_stages
from app.rating.settings import LoopSettings
from stable_arena_lab.commands.options import FormatOption, MinVotesOption, ProcessesOption, SeedOption
from stable_arena_lab.commands.report import Report, Row, Rows, Table, publish, table, word
from stable_arena_lab.commands.sources import open_source
from stable_arena_lab.defences.flag_curve import COINS, CONTRARY, Bin, draw_crowd, plant, trace

SIZES = (20, 51, 100, 200)


def flags(
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="[FILE]…", help="Votes to plant coins and contrary annotators in.")
    ] = None,
    annotators: Annotated[int, typer.Option(min=40, help="Annotators of a simulated crowd.")] = 400,
    votes_each: Annotated[
        list[int] | None, typer.Option(min=1, help="Votes of every annotator; repeat it.", show_default="20 to 200")
    ] = None,
    min_votes: MinVotesOption = 20,
    repeats: Annotated[int, typer.Option(min=1, help="Crowds of each kind, and plantings of each file.")] = 10,
    seed: SeedOption = 0,
    processes: ProcessesOption = 2,
    output_format: FormatOption = "table",
) -> None:
    """Show what each probability from which the rule flags finds and wrongs, and whether stated ones hold."""
    started, seeds = time.perf_counter(), range(seed, seed + repeats)
    curves, bins = [], []
    with showing_stages() as stages:
        for each in votes_each or SIZES:
            crowd = f"{annotators} × {each}"
            stages.stage(crowd)
            draw = partial(draw_crowd, annotators=annotators, votes_each=each)
            found = trace(crowd, draw, seeds, processes=processes, progress=stages.share)
            curves += found[0]
            bins += found[1]
        for file in files or ():
            arena = open_source(file, simulated=False, min_votes=min_votes, stages=stages).arena(seed)
            stages.stage(file.name)
            name = f"{file.name}, {arena.n_annotators}"
            curves += trace(name, partial(plant, arena), seeds, processes=processes, progress=stages.share)[0]
    rows: list[Row] = [asdict(one) for one in curves]
    calibration: list[Row] = [asdict(one) for one in bins]
    report = Report(
        experiment="flags",
        settings={"annotators": annotators, "min_votes": min_votes, "repeats": repeats, "seed": seed},
        results={"curves": rows, "calibration": calibration},
        tables=[_curves(rows), _calibration(bins)],
        notes=[
            f"{COINS:.0%} are coins and {CONTRARY:.0%} contrary; in a file they are planted.",
            "Flagged: P(ability ≤ ε) is P or more. With tests: or a test finds them.",
        ],
        chart={},
        seconds=time.perf_counter() - started,
    )
    publish(report, output_format, None)


def _curves(rows: Rows) -> Table:
    """Return one line for each crowd and probability, by the rule on abilities alone, and one with the tests."""
    lines = [row for row in rows if not row["tests"] or row["probability"] == LoopSettings.min_probability]
    lines.sort(key=lambda row: list(dict.fromkeys(each["crowd"] for each in rows)).index(row["crowd"]))
    return table(
        "Annotators flagged, %",
        lines,
        {
            "Crowd": word("crowd"),
            "P": lambda row: f"{row['probability']:g}{', tests' if row['tests'] else ''}",
            **{name: _share(name) for name in ("coins", "contrary", "honest")},
        },
        text=["Crowd", "P"],
    )


def _share(name: str) -> Callable[[Row], str]:
    def cell(row: Row) -> str:
        mean, se = row[name], row[f"{name}_se"]
        return "–" if mean is None else f"{100 * mean:.1f}" + ("" if se is None else f" ± {100 * se:.1f}")

    return cell


def _calibration(bins: list[Bin]) -> Table:
    """Return one line for each bin of stated probabilities, and a column for each crowd."""
    lines: dict[tuple[float, float], dict[str, object]] = {}
    for one in bins:
        line = lines.setdefault((one.least, one.most), {"stated": f"{one.least:g} to {one.most:g}"})
        means = "–" if one.true is None else f"{100 * one.true:.1f} ({100 * (one.stated or 0.0):.1f})"
        line[one.crowd] = f"{means} of {one.annotators:,}"
    crowds = list(dict.fromkeys(one.crowd for one in bins))
    return table(
        "Truly at or below ε (stated), %, by stated probability",
        list(lines.values()),
        {"P(ability ≤ ε)": word("stated"), **{crowd: word(crowd) for crowd in crowds}},
    )
