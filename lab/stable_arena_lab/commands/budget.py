import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from app.cli.progress import showing_stages
from app.errors import BadInputError
from app.rating.settings import LoopSettings
from app.rating.verdict.round import run_round
from stable_arena_lab.attacks.joining import Attack
from stable_arena_lab.attacks.strategies import STRATEGIES
from stable_arena_lab.budget import DEFENCES, Defence, find_budget
from stable_arena_lab.commands.charts import Spec, axis, colours, layer, panel, side_by_side
from stable_arena_lab.commands.options import FigureOption, FormatOption, MinVotesOption, SeedOption
from stable_arena_lab.commands.report import Report, Row, Rows, Table, check_figure, number, publish, table, word
from stable_arena_lab.commands.vote_files import NamedCells, open_named

TOP = 10
NUMBERS = ("median_attackers", "median_votes", "nearly_sure_attackers", "nearly_sure_votes")
LIFTED = ("lifted_by_half", "lifted_by_median", "lifted_by_nearly_sure")  # shares of new draws
NEED_OTHERS = ("copycats", "framing-by-copy")  # strategies that need other annotators' votes one by one


def budget(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Votes: CSV, JSONL (both also .gz, .zst) or Parquet.")],
    model: Annotated[
        list[str] | None, typer.Option(help=f"Model to lift; repeat for several. By default ranks 2 to {TOP}.")
    ] = None,
    place: Annotated[
        list[int] | None, typer.Option(min=0, help="Place of a model to lift, from the last, which is 0; repeatable.")
    ] = None,
    strategy: Annotated[str, typer.Option(help="Strategy of every attacker.")] = "target-only",
    votes_each: Annotated[int, typer.Option(min=1, help="Votes of every attacker.")] = 51,
    chosen: Annotated[bool, typer.Option("--chosen", help="Attackers choose battles of the model only.")] = False,
    most: Annotated[int, typer.Option(min=1, help="Largest number of attackers to try.")] = 64,
    min_votes: MinVotesOption = 50,
    draws: Annotated[
        int, typer.Option(min=0, help="New draws of the attackers' votes, to see how often the numbers lift.")
    ] = 0,
    seed: SeedOption = 0,
    output_format: FormatOption = "table",
    figure: FigureOption = None,
) -> None:
    """Find the median number of attackers, and of votes, that lift a model by one rank, for each defence."""
    check_figure(figure)
    known = [name for name in STRATEGIES if name not in NEED_OTHERS]
    if strategy not in known:
        raise BadInputError(f"--strategy must be one of {', '.join(known)}, is {strategy}")
    started = time.perf_counter()
    settings = LoopSettings(min_votes=min_votes)
    attack = Attack(strategy, votes_each, chosen)
    rows: list[Row] = []
    with showing_stages() as stages:
        named = open_named(file, stages)
        stages.stage("fitting")
        targets = _targets(named, settings, model, place)
        stages.stage("attacking")
        for done, target in enumerate(targets):
            for defence in DEFENCES:
                found = _find(named, settings, target, attack, defence, most, seed, draws)
                rows.append(found)
            if stages.share is not None:
                stages.share((done + 1) / len(targets))
    report = Report(
        experiment="budget",
        settings={
            "source": file.name, "strategy": strategy, "votes_each": votes_each, "chosen": chosen, "most": most,
            "min_votes": min_votes, "draws": draws, "seed": seed,
        },
        results={"budgets": rows},
        tables=[_table(rows, file.name, attack)],
        notes=[
            f"–: {most} attackers do not lift the model, or it is first already.",
            "Median: as many lift the model in about half of all draws of their votes. 1.5 ×: in nearly every draw.",
        ],
        chart=_chart(rows),
        seconds=time.perf_counter() - started,
    )  # fmt: skip
    publish(report, output_format, figure)


def _targets(named: NamedCells, settings: LoopSettings, asked: list[str] | None, places: list[int] | None) -> list[int]:
    unknown = [name for name in asked or [] if name not in named.models]
    if unknown:
        raise BadInputError(f"no vote is on a model {unknown[0]}")
    if asked:
        if places:
            raise BadInputError("--model and --place exclude each other")
        return [named.models.index(name) for name in asked]
    board = run_round(named.cells, settings).models
    order = np.lexsort((board.rank, board.component))
    shown = [int(m) for m in order if board.component[m] == 0 and board.identified[m] and board.rank[m] > 1]
    if not places:
        return shown[: TOP - 1]
    if max(places) >= len(shown):
        raise BadInputError(f"--place must be below {len(shown)}: so many models have one above them")
    return [shown[-1 - place] for place in places]


def _find(
    named: NamedCells, settings: LoopSettings, target: int, attack: Attack, defence: Defence, most: int, seed: int,
    draws: int,
) -> Row:  # fmt: skip
    name = named.models[target]
    try:
        found = find_budget(named.cells, settings, target, attack, defence, most=most, seed=seed, draws=draws)
    except ValueError:  # first already, or without a score, by this method
        return {
            "defence": defence,
            "model": name,
            "rank": None,
            **dict.fromkeys((*NUMBERS, *LIFTED, "at_least")),
            "most": most,
        }
    figures = asdict(found)
    lifted = figures.pop("lifted")
    shares = dict(zip(LIFTED, lifted or (None,) * len(LIFTED), strict=True))
    return {"defence": defence, **figures, **{name: getattr(found, name) for name in NUMBERS}, **shares, "model": name}


def _table(rows: Rows, title: str, attack: Attack) -> Table:
    how = "battles of the model" if attack.chosen else "uniform battles"
    return table(
        f"Attackers ({attack.strategy}, {attack.votes_each} votes each, {how}) that lift a model by a rank · {title}",
        rows,
        {
            "Model": word("model"),
            "Defence": word("defence"),
            "Rank": number("rank", 0),
            "Attackers, median": number("median_attackers", 0),
            "Votes, median": number("median_votes", 0),
            "Attackers, 1.5 ×": number("nearly_sure_attackers", 0),
            "Votes, 1.5 ×": number("nearly_sure_votes", 0),
            **(
                dict(zip(("half lifts", "median lifts", "1.5 × lifts"), (number(x, 2) for x in LIFTED), strict=True))
                if any(row[LIFTED[0]] is not None for row in rows)
                else {}
            ),
        },
        text=["Model", "Defence"],
    )


def _chart(rows: Rows) -> Spec:
    known = [dict(row) for row in rows if row["median_attackers"] is not None]
    return side_by_side(
        panel(
            known, "Attackers that lift a model by a rank, median", layer("point", filled=True, size=30),
            x=axis("rank", "rank before"), y=axis("median_attackers", "attackers, median", type="log"),
            color=colours("defence", "defence", DEFENCES),
        )
    )  # fmt: skip
