import time
from dataclasses import asdict
from typing import Annotated

import typer

from app.cli.progress import showing_stages
from stable_arena_lab.commands.charts import Spec, axis, category, colours, layer, panel, side_by_side
from stable_arena_lab.commands.options import FigureOption, FormatOption, ProcessesOption, SeedOption
from stable_arena_lab.commands.places import (
    DEFAULT_LIMIT,
    LeadersOption,
    LimitOption,
    ScoreSpreadOption,
    TargetOption,
    limit_of,
    make_setups,
    place_of,
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
from stable_arena_lab.defences.gains import BOARDS, PLAIN, boards_with
from stable_arena_lab.defences.search import Case, Effort, Found, search_all


def adaptive(
    target: TargetOption = None,
    leaders: LeadersOption = True,
    score_sd: ScoreSpreadOption = 140.0,
    annotators: Annotated[int, typer.Option(min=10, help="Annotators, including attackers.")] = 42,
    share: Annotated[float, typer.Option(min=0, max=0.5, help="Share of annotators who attack.")] = 0.1,
    votes_each: Annotated[int, typer.Option(min=1, help="Votes of every annotator.")] = 200,
    choose: Annotated[bool, typer.Option(help="Search attackers who choose their battles too.")] = True,
    influence_limit: LimitOption = DEFAULT_LIMIT,
    generations: Annotated[int, typer.Option(min=1, help="Generations of each search.")] = 6,
    population: Annotated[int, typer.Option(min=4, help="Attacks in a generation.")] = 24,
    crowds: Annotated[int, typer.Option(min=1, help="Crowds on which the attacker compares attacks.")] = 10,
    repeats: Annotated[int, typer.Option(min=1, help="Fresh crowds on which the best attack is measured.")] = 30,
    seed: SeedOption = 0,
    processes: ProcessesOption = 2,
    output_format: FormatOption = "table",
    figure: FigureOption = None,
) -> None:
    """Search, for each leaderboard, the attack that gains most: by attackers who know the rule and simulate it."""
    check_figure(figure)
    started = time.perf_counter()
    setups = make_setups(
        target, leaders=leaders, score_sd=score_sd, annotators=annotators, share=share, votes_each=votes_each
    )
    cases = [
        Case(setup, board, chosen) for setup in setups for chosen in ([False, True] if choose else [False])
        for board in BOARDS
    ]  # fmt: skip
    effort = Effort(generations, population, crowds)
    with showing_stages() as stages:
        stages.stage("searching")
        found = search_all(
            cases, effort, seeds=range(seed, seed + repeats), boards=boards_with(limit_of(influence_limit)),
            processes=processes, progress=stages.share,
        )  # fmt: skip
    rows = [_row(each) for each in found]
    title = f"{annotators} annotators, {votes_each} votes each, {100 * share:g} % attackers, {repeats} fresh crowds"
    report = Report(
        experiment="adaptive",
        settings={
            "setups": [asdict(setup) for setup in setups], **asdict(effort), "repeats": repeats, "seed": seed,
            "influence_limit": limit_of(influence_limit),
        },
        results={"attacks": rows},
        tables=[_table(rows, title)],
        notes=[
            "Each line: the best attack that a search found against the leaderboard named. Ranks: what the target",
            "gains there. Bradley-Terry: what the same votes gain on Bradley-Terry's leaderboard. Beyond: the",
            "difference, and its standard error. Found: by the rule.",
        ],
        chart=_chart(rows),
        seconds=time.perf_counter() - started,
    )  # fmt: skip
    publish(report, output_format, figure)


def _row(found: Found) -> Row:
    gains = {gain.board: gain for gain in found.gains}
    own, plain = gains[found.case.board], gains[PLAIN]
    return {
        "place": place_of(found.case.setup), "score_sd": found.case.setup.score_sd,
        "battles": "chosen" if found.case.choose else "uniform", "board": found.case.board,
        "ranks": own.ranks, "ranks_sd": own.ranks_sd, "points": own.points, "bradley_terry": plain.ranks,
        "beyond": own.beyond, "beyond_se": own.beyond_se,
        "found": own.found, "wronged": own.wronged, **asdict(found.tuning),
    }  # fmt: skip


def _table(rows: Rows, title: str) -> Table:
    return table(
        f"Best attacks found · {title}",
        rows,
        {
            "Place": word("place"), "Battles": word("battles"), "Against": word("board"),
            "Ranks": number("ranks", 1, sign=True), "±": number("ranks_sd", 1),
            "Points": number("points", 0, sign=True), "Bradley-Terry": number("bradley_terry", 1, sign=True),
            "Beyond": number("beyond", 2, sign=True), "± its error": number("beyond_se", 2),
            "Found": percent("found"), "Ability": number("ability", 1), "Ties": number("ties", 1),
            "Rate": number("rate", 2), "Chosen": number("chosen", 2), "Gap": number("gap", 0),
            "Honest first": number("honest_first", 2),
        },
        text=["Place", "Battles", "Against"],
    )  # fmt: skip


def _chart(rows: Rows) -> Spec:
    labelled: list[Row] = [{**row, "case": f"{row['place']}, {row['battles']}"} for row in rows]
    cases = list(dict.fromkeys(row["case"] for row in labelled))
    return side_by_side(
        panel(
            labelled, "The best attack found", layer("point", filled=True, size=40),
            x=axis("ranks", "ranks gained", zero=True), y=category("case", None, cases),
            color=colours("board", "against", tuple(BOARDS)),
        )
    )  # fmt: skip
