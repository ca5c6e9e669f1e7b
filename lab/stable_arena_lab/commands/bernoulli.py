import time
from dataclasses import asdict
from typing import Annotated, Any

import typer

from app.cli.progress import showing_stages
from stable_arena_lab.bernoulli import (
    BATTLES,
    INITIAL,
    K_FACTORS,
    PERMUTATIONS,
    TRAJECTORY_K,
    WIN_RATES,
    compare_settings,
    trace_scores,
)
from stable_arena_lab.commands.charts import Spec, axis, colours, layer, lines, panel, row_of, stacked
from stable_arena_lab.commands.options import FigureOption, FormatOption, SeedOption, check_k_factors
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

MOST_SHOWN = 100  # orders averaged in the paper's Figures 1 to 3, beside a single one


def bernoulli(
    win_rate: Annotated[
        list[float] | None,
        typer.Option(min=0.01, max=0.99, help="Only this probability that A wins, if not tied; repeat it."),
    ] = None,
    k: Annotated[list[float] | None, typer.Option(help="Only this K; repeat it for several.")] = None,
    battles: Annotated[int, typer.Option(min=2, max=100_000, help="Battles of A and B.")] = BATTLES,
    ties: Annotated[float, typer.Option(min=0, max=0.99, help="Probability that a battle is tied.")] = 0.0,
    repeats: Annotated[
        int, typer.Option(min=1, max=10_000, help="Random orders; averages are over 1, 10, … of them.")
    ] = PERMUTATIONS[-1],
    seed: SeedOption = 0,
    output_format: FormatOption = "table",
    figure: FigureOption = None,
) -> None:
    """Rate two models by Elo, one of which wins with a fixed probability (Elo Uncovered, Figures 1 to 4 and 6)."""
    check_figure(figure)
    k_factors = check_k_factors(k or K_FACTORS)
    started = time.perf_counter()
    rates = tuple(dict.fromkeys(win_rate or WIN_RATES))
    counts = sorted({*(size for size in PERMUTATIONS if size <= repeats), repeats})
    with showing_stages() as stages:
        stages.stage("playing")
        found = compare_settings(
            seed, battles=battles, ties=ties, win_rates=rates, k_factors=k_factors, permutations=counts
        )
        traced = trace_scores(seed, battles=battles, ties=ties, win_rates=rates, permutations=counts)
    differences, points = [asdict(row) for row in found], [asdict(point) for point in traced]
    report = Report(
        experiment="bernoulli",
        settings={
            "win_rates": rates, "k": k_factors, "battles": battles, "ties": ties, "initial": INITIAL,
            "repeats": repeats, "seed": seed, "trajectory_k": TRAJECTORY_K,
        },
        results={"differences": differences, "trajectories": points},
        tables=[_table(differences, battles)],
        notes=[
            "N: orders that are averaged. SD: of one order. Of the votes: the difference that explains A's share.",
            "B first: share of the averages over N orders that put B first.",
        ],
        chart=_chart(differences, points, counts),
        seconds=time.perf_counter() - started,
    )  # fmt: skip
    publish(report, output_format, figure)


def _table(rows: Rows, battles: int) -> Table:
    return table(
        f"S_A − S_B after {battles:,} battles, Elo points",
        rows,
        {
            "A wins": lambda row: f"{row['win_rate']:g}",
            "K": lambda row: f"{row['k']:g}",
            "N": word("permutations"),
            "S_A − S_B": _with_error,
            "SD": number("sd", 1),
            "Of the votes": number("of_votes", 1),
            "B first %": percent("wrong"),
        },
    )


def _with_error(row: Row) -> str:
    error = "" if row["sem"] is None else f" ± {row['sem']:.1f}"
    return f"{row['difference']:.1f}{error}"


def _chart(differences: Rows, points: Rows, counts: list[int]) -> Spec:
    rates = [f"{rate:g}" for rate in dict.fromkeys(row["win_rate"] for row in differences)]
    k_factors = [f"{k:g}" for k in dict.fromkeys(row["k"] for row in differences)]
    colour, of_k = colours("rate", "A wins", rates), colours("of_k", "K", k_factors)
    points = [{**point, **_band(point, "score"), **_band(point, "won")} for point in points]
    rows = [{**row, "rate": f"{row['win_rate']:g}", "of_k": f"{row['k']:g}"} for row in differences]
    shown = dict.fromkeys([1, max(count for count in counts if count <= MOST_SHOWN)])
    number_of_orders, gap = axis("permutations", "orders averaged", type="log"), axis("difference", "S_A − S_B")
    won, traced = (
        [
            panel(
                [point for point in points if point["permutations"] == count], f"{title}, {count} order(s)",
                layer("area", opacity=0.3, channels={
                    "y": axis(f"{field}_low", name), "y2": {"field": f"{field}_high"},
                }),
                layer("line", channels={"y": axis(field, name)}),
                x=axis("battles", "battles"), color=colour,
            )
            for count in shown
        ]
        for title, field, name in (
            ("Battles that A won", "won", "share"), (f"A's score, K = {TRAJECTORY_K:g}", "score", "score of A")
        )
    )  # fmt: skip
    by_k = [
        panel(
            [row for row in rows if row["permutations"] == count], f"S_A − S_B by K, {count} order(s)", lines(),
            x=axis("k", "K"), y=gap, color=colour,
        )
        for count in shown
    ]  # fmt: skip
    by_orders = [
        panel(
            [row for row in rows if row["rate"] == rate], f"S_A − S_B, A wins {rate}", lines(),
            x=number_of_orders, y=gap, color=of_k,
        )
        for rate in (rates[0], rates[-1])
    ]  # fmt: skip
    return stacked(row_of(*won), row_of(*traced), row_of(*by_k), row_of(*by_orders))


def _band(point: Row, field: str) -> dict[str, Any]:
    """Return the rate as a word, and the ends of a band of one standard error; the value itself for one order."""
    sem = point[f"{field}_sem" if field == "won" else "sem"] or 0.0
    ends = {f"{field}_low": point[field] - sem, f"{field}_high": point[field] + sem}
    return {"rate": f"{point['win_rate']:g}", **ends}
