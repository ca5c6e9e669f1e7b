import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any

import typer

from app.cli.progress import showing_stages
from app.rating.votes.graph import spread_votes
from stable_arena_lab.commands.charts import Spec, axis, category, colours, layer, lines, panel, row_of, stacked
from stable_arena_lab.commands.options import (
    FigureOption,
    FileArgument,
    FormatOption,
    MinVotesOption,
    ProcessesOption,
    SeedOption,
    ShufflesOption,
    SimulatedOption,
)
from stable_arena_lab.commands.report import Report, Row, Rows, Table, check_figure, number, publish, table, word
from stable_arena_lab.commands.sources import Source, open_source
from stable_arena_lab.methods import ELO_SHUFFLES, EVERY_METHOD
from stable_arena_lab.prediction import predict


def prediction(
    file: FileArgument = None,
    simulated: SimulatedOption = False,
    chatbot: Annotated[
        bool,
        typer.Option("--chatbot", help="Votes in the shape of Chatbot Arena's 33,000, simulated."),
    ] = False,
    repeats: Annotated[int, typer.Option(min=1, help="Random 80/20 splits.")] = 5,
    min_votes: MinVotesOption = 50,
    shuffles: ShufflesOption = ELO_SHUFFLES,
    seed: SeedOption = 0,
    processes: ProcessesOption = 2,
    output_format: FormatOption = "table",
    figure: FigureOption = None,
) -> None:
    """Predict held-out votes by every method (the am-ELO paper's Table 2 and Figure 3)."""
    check_figure(figure)
    started = time.perf_counter()
    with showing_stages() as stages:
        source = open_source(file, simulated=simulated, chatbot=chatbot, min_votes=min_votes, stages=stages)
        stages.stage("predicting")
        seeds = range(seed, seed + repeats)
        results, by_model = predict(source.arena, seeds, shuffles=shuffles, processes=processes, progress=stages.share)
    rows = [asdict(result) for result in results]
    losses = [asdict(loss) for loss in by_model]
    spread = [{"per": per, **asdict(each)} for per, each in spread_votes(source.arena(seed).cells()).items()]
    report = Report(
        experiment="prediction",
        settings={**source.settings, "repeats": repeats, "shuffles": shuffles, "seed": seed},
        results={"methods": rows, "losses": losses, "votes": spread},
        tables=[_table(source, rows), _losses_table(losses), _votes(spread)],
        notes=[
            "MSE over all held-out votes, AUC without ties. Lead: minus am-elo robust's, where both have a result.",
            "elo: mean over random orders, as the paper says. elo bootstrap: median over resamples, as its code does.",
            "Paper: Table 2 of am-ELO, on its own data; its AUC is that with ties, its am-ELO is maximum likelihood.",
        ],
        chart=_chart(rows, losses),
        seconds=time.perf_counter() - started,
    )
    publish(report, output_format, figure)


def _table(source: Source, rows: Rows) -> Table:
    return table(
        f"Prediction · {source.title}",
        rows,
        {
            "Method": word("method"),
            "MSE": _with_spread("mse"),
            "Lead": number("mse_lead", 4, sign=True),
            "Paper": _with_spread("paper_mse"),
            "AUC": _with_spread("auc"),
            "Lead ": number("auc_lead", 4, sign=True),
            "AUC with ties": _with_spread("published_auc"),
            "Paper ": _with_spread("paper_auc"),
            "Splits": lambda row: f"{row['answered']} of {row['splits']}",
        },
        text=["Method"],
    )


def _losses_table(losses: Rows) -> Table:
    by_model: dict[str, dict[str, Any]] = {}
    for row in losses:
        line = by_model.setdefault(
            row["model"], {"model": row["model"], "votes": row["votes"]} | dict.fromkeys(EVERY_METHOD)
        )
        line[row["method"]] = row["loss"]
    columns = {str(method): number(method, 4) for method in EVERY_METHOD}
    title = "−ℓ per held-out vote, by model (the paper's Figure 3)"
    return table(
        title, list(by_model.values()), {"Model": word("model"), "Votes": word("votes"), **columns}, text=["Model"]
    )


def _votes(spread: Rows) -> Table:
    columns = {name.capitalize(): number(name, digits) for name, digits in (("mean", 1), ("median", 1))}
    ends = {name.capitalize(): number(name, 0) for name in ("least", "most")}
    return table("Votes (the paper's Table 1)", spread, {"Per": word("per"), **columns, **ends}, text=["Per"])


def _with_spread(key: str) -> Callable[[Row], str]:
    mean, spread = number(key, 4), number(f"{key}_sd", 4)
    return lambda row: "–" if row[key] is None else f"{mean(row)} ± {spread(row)}"


def _chart(rows: Rows, losses: Rows) -> Spec:
    panels = []
    for title, key in (("MSE, less is better", "mse"), ("AUC, more is better", "auc")):
        known = [row for row in rows if row[key] is not None]
        ends = [
            {**row, "low": row[key] - (row[f"{key}_sd"] or 0.0), "high": row[key] + (row[f"{key}_sd"] or 0.0)}
            for row in known
        ]
        spread = layer("rule", channels={"x": axis("low", title), "x2": {"field": "high"}}, color="#999")
        mean = layer("point", channels={"x": axis(key, title)}, filled=True, size=60)
        panels.append(panel(ends, title, spread, mean, y=category("method", None, EVERY_METHOD)))
    hardest = sorted((row for row in losses if row["method"] == "m-elo"), key=lambda row: -row["loss"])
    by_model = panel(
        losses, "−ℓ per held-out vote, by model", lines(),
        x={**category("model", "models, the hardest to predict first", [row["model"] for row in hardest]),
           "axis": {"labels": False, "ticks": False}},
        y=axis("loss", "−ℓ per vote"), color=colours("method", "method", EVERY_METHOD),
    )  # fmt: skip
    return stacked(row_of(*panels), row_of(by_model))
