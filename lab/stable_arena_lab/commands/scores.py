import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any

import numpy as np
import typer

from app.cli.progress import showing_stages
from stable_arena_lab.alone import rate_alone
from stable_arena_lab.commands.charts import Spec, axis, category, colours, layer, panel, row_of, stacked
from stable_arena_lab.commands.options import (
    FigureOption,
    FileArgument,
    FormatOption,
    MinVotesOption,
    SeedOption,
    ShufflesOption,
    SimulatedOption,
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
from stable_arena_lab.commands.sources import open_source
from stable_arena_lab.methods import ELO_SHUFFLES, EVERY_METHOD, METHODS
from stable_arena_lab.opponents import compare_opponents, tabulate_records
from stable_arena_lab.scores import compare_scores

MOST_MAPPED = 20  # best models whose pairs the figure shows: more squares make the file large
OPPONENTS = ("better", "worse")


def scores(
    file: FileArgument = None,
    simulated: SimulatedOption = False,
    min_votes: MinVotesOption = 50,
    shuffles: ShufflesOption = ELO_SHUFFLES,
    repeats: Annotated[int, typer.Option(min=1, help="With --simulated: arenas where a model avoids others.")] = 30,
    seed: SeedOption = 0,
    output_format: FormatOption = "table",
    figure: FigureOption = None,
) -> None:
    """Rate by every method: scores, win rates, records, each annotator alone (the am-ELO paper's Figures 1 and 4)."""
    check_figure(figure)
    started = time.perf_counter()
    with showing_stages() as stages:
        source = open_source(file, simulated=simulated, min_votes=min_votes, stages=stages)
        stages.stage("rating")
        arena = source.arena(seed)
        found = compare_scores(arena, seed=seed, shuffles=shuffles)
        stages.stage("rating by each annotator alone")
        by_one = rate_alone(arena, seed=seed, shuffles=shuffles)
        records = tabulate_records(
            arena, np.array([row.score for row in found[0] if row.method == "m-elo"], dtype=float)
        )
        stages.stage("choosing opponents")
        seeds = range(seed, seed + repeats) if simulated else ()
        choices = compare_opponents(seeds, shuffles=shuffles, progress=stages.share) if simulated else []
    parts = (*found, *by_one, records, choices)
    rows, losses, pairs, alone, spreads, records_rows, opponents = ([asdict(row) for row in part] for part in parts)
    report = Report(
        experiment="scores",
        settings={**source.settings, "shuffles": shuffles, "seed": seed, "repeats": repeats},
        results={
            "scores": rows, "losses": losses, "pairs": pairs, "alone": alone, "spreads": spreads,
            "records": records_rows, "opponents": opponents,
        },
        tables=[
            _table(rows, source.title), _losses(losses), _spreads(spreads), _records(records_rows),
            *([_opponents(opponents)] if opponents else []),
        ],
        notes=[
            "± : standard deviation between single orders (elo) or resamples (elo bootstrap); the others have none.",
            "The JSON document has the pairs of models too: how often the first wins, as voted and as predicted.",
        ],
        chart=_chart(rows, pairs, spreads, records_rows, opponents),
        seconds=time.perf_counter() - started,
    )  # fmt: skip
    publish(report, output_format, figure)


def _table(rows: Rows, title: str) -> Table:
    lines: dict[str, dict[str, Any]] = {}
    for row in rows:
        lines.setdefault(row["model"], {"model": row["model"]})[row["method"]] = row
    ordered = sorted(lines.values(), key=lambda line: -(line["am-elo robust"]["score"] or -1e9))
    columns = {str(method): _score_by(method) for method in EVERY_METHOD}
    return table(f"Scores · {title}", ordered, {"Model": word("model"), **columns}, text=["Model"])


def _score_by(method: str) -> Callable[[Row], str]:
    def score(line: Row) -> str:
        row = line[method]
        if row["score"] is None:
            return "–"
        return f"{row['score']:.1f}" + (f" ± {row['sd']:.1f}" if row["sd"] else "")

    return score


def _losses(rows: Rows) -> Table:
    return table("−ℓ per vote", rows, {"Method": word("method"), "Loss": number("loss", 5)}, text=["Method"])


def _spreads(rows: Rows) -> Table:
    return table(
        "Elo by each annotator alone (the paper's Figure 1)", rows,
        {
            "Model": word("model"), "Annotators": word("annotators"), "Mean": number("mean", 1), "SD": number("sd", 1),
            "Max − min": number("range", 1), "Votes dealt at random": number("dealt_range", 1),
        },
        text=["Model"],
    )  # fmt: skip


def _records(rows: Rows) -> Table:
    return table(
        "Battles with better and worse models (the paper's Figure 4)", rows,
        {
            "Model": word("model"), "With better": word("better_votes"), "Won %": percent("better_won"),
            "With worse": word("worse_votes"), "Won % ": percent("worse_won"),
        },
        text=["Model"],
    )  # fmt: skip


def _opponents(rows: Rows) -> Table:
    return table(
        "Two equal models, one of which meets only weak opponents, the other only strong ones: errors", rows,
        {
            "Method": word("method"),
            "Only weak": _with_error("avoider"), "Only strong": _with_error("seeker"), "Gap": _with_error("gap"),
            "Arenas": word("answered"),
        },
        text=["Method"],
    )  # fmt: skip


def _with_error(key: str) -> Callable[[Row], str]:
    mean, error = number(key, 1, sign=True), number(f"{key}_se", 1)
    return lambda row: f"{mean(row)} ± {error(row)}"


def _chart(rows: Rows, pairs: Rows, spreads: Rows, records: Rows, opponents: Rows) -> Spec:
    known = [row for row in rows if row["score"] is not None]
    best_first = [row["model"] for row in sorted(known, key=lambda row: -row["score"]) if row["method"] == "m-elo"]
    model = _unlabelled("model", best_first)
    ends = [{**row, "low": row["score"] - row["sd"], "high": row["score"] + row["sd"]} for row in known]
    bars = layer("rule", channels={"y": axis("low", "score"), "y2": {"field": "high"}}, opacity=0.5)
    points = layer("point", channels={"y": axis("score", "score")}, filled=True, size=15)
    shown = panel(ends, "Scores", bars, points, x=model, color=colours("method", "method", EVERY_METHOD))
    best = best_first[:MOST_MAPPED]
    both = [
        each
        for pair in pairs
        if pair["model_a"] in best and pair["model_b"] in best
        for each in (pair, {**pair, "model_a": pair["model_b"], "model_b": pair["model_a"], **_turned(pair)})
    ]
    maps = [
        panel(
            both, title, layer("rect"),
            x=_unlabelled("model_b", best), y=_unlabelled("model_a", best),
            color={**axis(key, "wins", domain=[0, 1]), "type": "quantitative"},
        )
        for key, title in (("voted", "Wins, as voted"), ("m_elo", "… m-ELO"), ("am_elo", "… am-ELO"))
    ]  # fmt: skip
    return stacked(row_of(shown, *_alone(spreads, model)), row_of(*_choices(records, opponents, model)), row_of(*maps))


def _alone(spreads: Rows, model: Spec) -> list[Spec]:
    """Return the panels of Elo by each annotator alone: the scores, and how far apart they are."""
    ends = [{**row, "low": row["mean"] - (row["sd"] or 0), "high": row["mean"] + (row["sd"] or 0)} for row in spreads]
    ranges = [
        {"model": row["model"], "range": row[key], "votes": votes}
        for row in spreads
        for key, votes in (("range", "as voted"), ("dealt_range", "dealt at random"))
    ]
    return [
        panel(
            ends, "Elo by each annotator alone",
            layer("rule", channels={"y": axis("least", "score"), "y2": {"field": "most"}}, opacity=0.4),
            layer("rule", channels={"y": axis("low", "score"), "y2": {"field": "high"}}, strokeWidth=3),
            x=model,
        ),
        panel(
            ranges, "… most minus least", layer("line"),
            x=model, y=axis("range", "range", type="log"),
            strokeDash=category("votes", "votes", ("as voted", "dealt at random")),
        ),
    ]  # fmt: skip


def _choices(records: Rows, opponents: Rows, model: Spec) -> list[Spec]:
    """Return the panels of the records, and of the two equal models with different opponents where they were rated."""
    sides = [{"model": row["model"], "won": row[f"{side}_won"], "side": side} for row in records for side in OPPONENTS]
    won = panel(
        sides, "Battles won", layer("point", filled=True, size=15),
        x=model, y=axis("won", "share"), color=colours("side", "against models that are", OPPONENTS),
    )  # fmt: skip
    gaps = [
        {**row, "low": row["gap"] - (row["gap_se"] or 0), "high": row["gap"] + (row["gap_se"] or 0)}
        for row in opponents
        if row["gap"] is not None
    ]
    gap = panel(
        gaps, "What it gains to avoid strong opponents",
        layer("rule", channels={"x": axis("low", "Elo points"), "x2": {"field": "high"}}, color="#999"),
        layer("point", channels={"x": axis("gap", "Elo points", zero=True)}, filled=True, size=60),
        y=category("method", None, METHODS),
    )  # fmt: skip
    return [won, gap] if gaps else [won]


def _unlabelled(field: str, best_first: list[str]) -> Spec:
    """Return a channel of models, the best first; dozens of names would hide each other."""
    return {**category(field, "models, best first", best_first), "axis": {"labels": False, "ticks": False}}


def _turned(pair: Row) -> dict[str, float | None]:
    return {key: None if pair[key] is None else 1.0 - pair[key] for key in ("voted", "m_elo", "am_elo")}
