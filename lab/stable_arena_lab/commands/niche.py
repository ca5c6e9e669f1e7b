import time
from dataclasses import asdict
from typing import Annotated

import typer

from app.cli.progress import showing_stages
from stable_arena_lab.commands.charts import axis, category, colours, layer, panel, side_by_side
from stable_arena_lab.commands.options import FigureOption, FormatOption, ProcessesOption, SeedOption
from stable_arena_lab.commands.places import DEFAULT_LIMIT, LimitOption, ScoreSpreadOption, limit_of
from stable_arena_lab.commands.report import Report, Row, check_figure, percent, publish, table, word
from stable_arena_lab.defences.gains import boards_with
from stable_arena_lab.defences.niche import Niche, measure_framing

JUDGES = [5, 8, 10]
AM_ELO = ("flagged stay", "flagged excluded")


def niche(
    judges: Annotated[
        list[int] | None, typer.Option(min=1, help="Honest judges of the niche; repeat it.", show_default="5, 8, 10")
    ] = None,
    framers: Annotated[int, typer.Option(min=0, help="Attackers, all of whose votes are in the niche.")] = 4,
    framer_votes: Annotated[int, typer.Option(min=1, help="Votes of every attacker.")] = 200,
    score_sd: ScoreSpreadOption = 140.0,
    influence_limit: LimitOption = DEFAULT_LIMIT,
    repeats: Annotated[int, typer.Option(min=1, help="Crowds to draw.")] = 30,
    seed: SeedOption = 0,
    processes: ProcessesOption = 2,
    output_format: FormatOption = "table",
    figure: FigureOption = None,
) -> None:
    """Frame the honest judges of five models by outvoting them: how many the rule flags."""
    check_figure(figure)
    started = time.perf_counter()
    boards = {name: board for name, board in boards_with(limit_of(influence_limit)).items() if name in AM_ELO}
    rows: list[Row] = []
    with showing_stages() as stages:
        stages.stage("framing")
        for number in judges or JUDGES:
            world = Niche(judges=number, framers=framers, framer_votes=framer_votes, score_sd=score_sd)
            seeds = range(seed, seed + repeats)
            rows += [
                {
                    "judges": number,
                    "board": each.board,
                    "flagged": each.judges,
                    "flagged_se": each.judges_se,
                    "may_exclude": each.acted,
                    "may_exclude_se": each.acted_se,
                    "crowd": each.crowd,
                    "found": each.attackers,
                }
                for each in measure_framing(world, boards, seeds=seeds, processes=processes, progress=stages.share)
            ]
    report = Report(
        experiment="niche",
        settings={**asdict(Niche(framers=framers, framer_votes=framer_votes, score_sd=score_sd)),
                  "repeats": repeats, "seed": seed, "influence_limit": limit_of(influence_limit)},
        results={"framed": rows},
        tables=[
            table(
                f"Honest judges of a niche flagged, and {framers} attackers found · {repeats} crowds", rows,
                {"Judges": word("judges"), "Board": word("board"), "Flagged": percent("flagged"),
                 "± its error": percent("flagged_se"), "By what may exclude": percent("may_exclude"),
                 "± of it": percent("may_exclude_se"), "Of the others": percent("crowd"), "Found": percent("found")},
                text=["Board"],
            )
        ],
        notes=[
            f"Each judge has 51 votes on five models, each attacker {framer_votes} that turn their ranking over.",
            "Tests about a model flag and never exclude.",
        ],
        chart=side_by_side(
            panel(
                rows, "Honest judges flagged", layer("point", filled=True, size=40),
                x=axis("flagged", "share", zero=True),
                y=category("judges", "judges", list(map(str, judges or JUDGES))),
                color=colours("board", "board", AM_ELO),
            )
        ),
        seconds=time.perf_counter() - started,
    )  # fmt: skip
    publish(report, output_format, figure)
