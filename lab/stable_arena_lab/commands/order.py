import time
from dataclasses import asdict
from typing import Annotated

import typer

from app.cli.progress import showing_stages
from stable_arena_lab.commands.charts import Spec, axis, colours, lines, panel, side_by_side
from stable_arena_lab.commands.options import (
    FigureOption,
    FileArgument,
    FormatOption,
    MinVotesOption,
    ProcessesOption,
    SeedOption,
    SimulatedOption,
    check_k_factors,
)
from stable_arena_lab.commands.report import Report, Rows, Table, check_figure, number, publish, table, word
from stable_arena_lab.commands.sources import open_source
from stable_arena_lab.order import INITIAL, K_FACTORS, PERMUTATIONS, shuffle_and_rate


def order(
    file: FileArgument = None,
    simulated: SimulatedOption = False,
    k: Annotated[list[float] | None, typer.Option(help="Only this K; repeat it for several.")] = None,
    repeats: Annotated[
        int, typer.Option(min=2, max=100_000, help="Random orders of the votes; averages are over 1, 10, … of them.")
    ] = PERMUTATIONS[-1],
    keep_ties: Annotated[
        bool, typer.Option("--keep-ties", help="Count ties as half a win for each; the paper drops them.")
    ] = False,
    min_votes: MinVotesOption = 50,
    seed: SeedOption = 0,
    processes: ProcessesOption = 2,
    output_format: FormatOption = "table",
    figure: FigureOption = None,
) -> None:
    """Shuffle the votes: how far Elo moves by K and averaging, beside m-ELO and am-ELO (Elo Uncovered)."""
    check_figure(figure)
    k_factors = check_k_factors(k or K_FACTORS)
    permutations = sorted({*(size for size in PERMUTATIONS if size <= repeats), repeats})
    started = time.perf_counter()
    with showing_stages() as stages:
        source = open_source(file, simulated=simulated, min_votes=min_votes, stages=stages)
        stages.stage("shuffling")
        arena = source.arena(seed) if keep_ties else source.arena(seed).without_ties()
        spreads, order_free = shuffle_and_rate(
            arena,
            seed=seed, k_factors=k_factors, permutations=permutations, processes=processes, progress=stages.share,
        )  # fmt: skip
    elo, others = [asdict(row) for row in spreads], [asdict(row) for row in order_free]
    report = Report(
        experiment="order",
        settings={
            **source.settings, "votes": arena.n_votes, "keep_ties": keep_ties, "k": k_factors, "initial": INITIAL,
            "repeats": repeats, "seed": seed,
        },
        results={"elo": elo, "order_free": others},
        tables=[_elo_table(elo, f"{source.title}, {arena.n_votes:,} of them counted"), _others_table(others)],
        notes=[
            "N: orders that one published score averages. SD, range: of such scores between different sets of orders."
        ],
        chart=_chart(elo),
        seconds=time.perf_counter() - started,
    )  # fmt: skip
    publish(report, output_format, figure)


def _elo_table(rows: Rows, title: str) -> Table:
    return table(
        f"Elo over orders of the same votes · {title}",
        rows,
        {
            "K": lambda row: f"{row['k']:g}",
            "N": word("permutations"),
            "SD": number("sd", 2),
            "Range": number("range", 1),
            "Consistency": number("consistency", 3),
            "With m-ELO": number("with_m_elo", 3),
            "Different leaders": word("leaders"),
        },
    )


def _others_table(rows: Rows) -> Table:
    return table(
        "Fitted to the votes in five orders",
        rows,
        {"Method": word("method"), "Range": number("range", 6), "Consistency": number("consistency", 3)},
        text=["Method"],
    )


def _chart(rows: Rows) -> Spec:
    named = [{**row, "averaged": f"{row['permutations']:,}"} for row in rows]
    colour = colours("averaged", "orders averaged", list(dict.fromkeys(row["averaged"] for row in named)))
    several = [row for row in named if row["consistency"] is not None]
    k = axis("k", "K", zero=True)
    return side_by_side(
        panel(named, "Spread by order alone", lines(), x=k, y=axis("sd", "SD, Elo points", type="log"), color=colour),
        panel(several, "Do two such rankings agree?", lines(), x=k, y=axis("consistency", "consistency"), color=colour),
        panel(named, "Do they agree with m-ELO?", lines(), x=k, y=axis("with_m_elo", "consistency"), color=colour),
    )
