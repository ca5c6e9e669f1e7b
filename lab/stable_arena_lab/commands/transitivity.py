import time
from dataclasses import asdict
from typing import Annotated

import typer

from app.cli.progress import showing_stages
from stable_arena_lab.commands.charts import Spec, axis, category, colours, layer, lines, panel, row_of, stacked
from stable_arena_lab.commands.options import FigureOption, FormatOption, ProcessesOption, SeedOption
from stable_arena_lab.commands.report import Report, Rows, Table, check_figure, number, percent, publish, table, word
from stable_arena_lab.transitivity import (
    ELO_SETTINGS,
    INITIAL,
    MODELS,
    RATINGS,
    SCENARIOS,
    SHOWN_N,
    VOTES_EACH_PAIR,
    WIN_RATES,
    rate_scenarios,
    tabulate_scores,
)


def transitivity(
    closed: Annotated[bool, typer.Option("--closed", help="Add battles A–C to A–B and B–C.")] = False,
    repeats: Annotated[int, typer.Option(min=1, help="Simulated data sets of each scenario.")] = 200,
    seed: SeedOption = 0,
    processes: ProcessesOption = 2,
    output_format: FormatOption = "table",
    figure: FigureOption = None,
) -> None:
    """Rate A > B > C in four scenarios: which methods get the order right (Elo Uncovered, Table 1, Figures 5, 7)."""
    check_figure(figure)
    started = time.perf_counter()
    with showing_stages() as stages:
        stages.stage("simulating")
        results = rate_scenarios(
            range(seed, seed + repeats),
            closed=closed, processes=processes, progress=stages.share,
        )  # fmt: skip
        scores = [asdict(cell) for cell in tabulate_scores(seed, closed=closed)]
    rows = [asdict(row) for row in results]
    report = Report(
        experiment="transitivity",
        settings={
            "win_rates": WIN_RATES, "closed": closed, "votes_each_pair": VOTES_EACH_PAIR,
            "repeats": repeats, "seed": seed,
        },
        results={"scores": scores, "orders": rows},
        tables=[_scores_table(scores), _table(rows)],
        notes=[
            f"Scores: of one data set, mean ± standard error over the orders, all start at {INITIAL:g}.",
            "Shares of the data sets. As voted: neighbours are in the order of the majority of their battles.",
        ],
        chart=_chart(rows, scores),
        seconds=time.perf_counter() - started,
    )  # fmt: skip
    publish(report, output_format, figure)


def _scores_table(cells: Rows) -> Table:
    """Lay the scores out as the paper's Table 1 does: a row for each model, a column for each (K, N)."""
    lines: dict[tuple[str, str], dict[str, str]] = {}
    for cell in cells:
        if (cell["k"], cell["permutations"]) not in ELO_SETTINGS:
            continue
        line = lines.setdefault(
            (cell["scenario"], cell["model"]), {"scenario": cell["scenario"], "model": cell["model"]}
        )
        error = "" if cell["sem"] is None else f" ± {cell['sem']:.2f}"
        line[f"N={cell['permutations']} K={cell['k']:g}"] = f"{cell['score']:.2f}{error}"
    rows = list(lines.values())
    columns = {name: word(name) for name in rows[0] if name not in ("scenario", "model")}
    return table(
        "Elo scores, Elo Uncovered's Table 1", rows,
        {"Scenario": word("scenario"), "Model": word("model"), **columns}, text=["Scenario", "Model"],
    )  # fmt: skip


def _table(rows: Rows) -> Table:
    return table(
        f"A > B > C, {VOTES_EACH_PAIR:,} battles a pair",
        rows,
        {
            "Scenario": word("scenario"),
            "Rating": word("rating"),
            "A": number("a", 1),
            "B": number("b", 1),
            "C": number("c", 1),
            "A > B > C %": percent("true_order"),
            "As voted %": percent("order_of_votes"),
            "A > C %": percent("a_above_c"),
            "Answers": word("answered"),
        },
        text=["Scenario", "Rating"],
    )


def _chart(rows: Rows, scores: Rows) -> Spec:
    points = [
        {**cell, "low": cell["score"] - (cell["sem"] or 0.0), "high": cell["score"] + (cell["sem"] or 0.0)}
        for cell in scores
    ]
    by_k = [
        row_of(
            *(
                panel(
                    [p for p in points if (p["scenario"], p["permutations"]) == (scenario, count)],
                    f"{scenario}, {count} order(s)",
                    layer("rule", channels={"y": axis("low", "score"), "y2": {"field": "high"}}),
                    lines(),
                    x=axis("k", "K", type="log"), y=axis("score", "score"), color=colours("model", "model", MODELS),
                )
                for scenario in SCENARIOS
            )
        )
        for count in (SHOWN_N[0], SHOWN_N[-1])
    ]  # fmt: skip
    rating = {**category("rating", None, RATINGS), "axis": {"labels": False, "ticks": False}}
    voted = (
        panel(
            [row for row in rows if row["scenario"] == scenario], scenario, layer("bar"),
            x=rating, y=axis("order_of_votes", "ordered as voted", zero=True, domain=[0, 1]),
            color=colours("rating", "rating", RATINGS),
        )
        for scenario in SCENARIOS
    )  # fmt: skip
    return stacked(row_of(*voted), *by_k)
