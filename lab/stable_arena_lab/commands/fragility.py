import time
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from app.cli.progress import showing_stages
from app.rating.settings import LoopSettings, Method
from app.rating.uncertainty.influence import Influence, find_influence, leave_annotators_out
from app.rating.verdict.fragility import (
    CHANGES,
    HANDFUL,
    Fewest,
    Fragility,
    find_fragility,
)
from app.rating.verdict.rating import Rating, estimate
from stable_arena_lab.commands.charts import Spec, axis, colours, layer, panel, side_by_side
from stable_arena_lab.commands.options import FigureOption, FormatOption, MinVotesOption
from stable_arena_lab.commands.report import Report, Row, Rows, Table, check_figure, number, publish, table, word
from stable_arena_lab.commands.vote_files import NamedCells, open_named
from stable_arena_lab.verified import verify_annotators, verify_votes

SHOWN_ANNOTATORS = 10
WAYS = ("votes", "flipped_votes", "added_votes", "annotators")


def fragility(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Votes: CSV, JSONL (both also .gz, .zst) or Parquet.")],
    method: Annotated[Method, typer.Option(help="am-elo estimates annotators too; m-elo is Bradley-Terry.")] = "am-elo",
    verify: Annotated[
        bool, typer.Option("--verify", help="Fit again with the votes changed, and without the annotators.")
    ] = False,
    min_votes: MinVotesOption = 50,
    output_format: FormatOption = "table",
    figure: FigureOption = None,
) -> None:
    """Find how few votes, dropped, flipped or added, and how few annotators change the order of the leaderboard."""
    check_figure(figure)
    started = time.perf_counter()
    settings = LoopSettings(method=method, min_votes=min_votes, interval="none")
    with showing_stages() as stages:
        named = open_named(file, stages)
        stages.stage("fitting")
        kept = named.cells.votes_by_annotator() > min_votes
        result = estimate(named.cells.where(kept[named.cells.annotator]), settings)
        stages.stage("looking for small sets")
        influence = find_influence(result)
        found = find_fragility(result, influence)
        stages.stage("refitting")
        checked = _verify(result, settings, found, influence) if verify else None
    pairs, weights = _pairs(named, found, checked), _weights(named, result, influence)
    best: list[Row] = [{"k": k, **counts} for k, counts in enumerate(_counts(found.best), start=1)]
    report = Report(
        experiment="fragility",
        settings={"source": file.name, "method": method, "min_votes": min_votes, "verify": verify},
        results={"pairs": pairs, "best": best, "annotators": weights},
        tables=_tables(pairs, best, weights, file.name, verify=verify),
        notes=[
            f"{int(found.tied.sum())} of {len(pairs)} pairs depend on {HANDFUL} votes or fewer: they count as tied.",
        ],
        chart=_chart(pairs),
        seconds=time.perf_counter() - started,
    )
    publish(report, output_format, figure)


def _verify(result: Rating, settings: LoopSettings, found: Fragility, influence: Influence) -> Fewest:
    both = list(zip(found.upper.tolist(), found.lower.tolist(), strict=True))
    dropped, flipped, added = (
        np.array([verify_votes(result, settings, *pair, influence, change) for pair in both], dtype=np.int64)
        for change in CHANGES
    )
    annotators = [verify_annotators(result, settings, *pair, influence) for pair in both]
    unknown = np.full(len(both), -1)  # of prompts, which vote files of the laboratory do not have
    return Fewest(dropped, flipped, added, np.array(annotators, dtype=np.int64), unknown)


def _pairs(named: NamedCells, found: Fragility, checked: Fewest | None) -> list[Row]:
    counts, rows = _counts(found.swap), list[Row]()
    verified = _counts(checked) if checked else [dict.fromkeys(WAYS)] * len(counts)
    for at, (upper, lower) in enumerate(zip(found.upper, found.lower, strict=True)):
        rows.append(
            {
                "upper": named.models[upper],
                "lower": named.models[lower],
                "gap": float(found.gap[at]),
                **counts[at],
                **{f"{way}_verified": verified[at][way] for way in WAYS},
                "tied": bool(found.tied[at]),
            }
        )
    return rows


def _counts(fewest: Fewest) -> list[Row]:
    columns = (fewest.dropped, fewest.flipped, fewest.added, fewest.annotators)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [{way: None if count < 0 else count for way, count in zip(WAYS, row, strict=True)} for row in rows]


def _weights(named: NamedCells, result: Rating, influence: Influence) -> list[Row]:
    """Return the annotators whose removal changes the scores most, in the root mean square."""
    change = leave_annotators_out(influence)
    size = np.sqrt(np.nanmean(change**2, axis=1))
    order = np.argsort(-np.nan_to_num(size, nan=np.inf), kind="stable")[:SHOWN_ANNOTATORS]
    votes = result.small.cells.votes_by_annotator()
    return [
        {
            "annotator": named.annotators[result.small.annotators[k]],
            "votes": int(votes[k]),
            "points": None if np.isnan(size[k]) else float(size[k]),
            "most": None if np.isnan(size[k]) else float(np.nanmax(np.abs(change[k]))),
        }
        for k in order
    ]


def _tables(pairs: Rows, best: Rows, annotators: Rows, title: str, *, verify: bool) -> list[Table]:
    heads = dict(zip(WAYS, ("Dropped", "Flipped", "Added", "Annotators"), strict=True))
    ways = {head: number(way, 0) for way, head in heads.items()}
    columns = {"Model": word("upper"), "Above": word("lower"), "Points": number("gap", 1), **ways}
    if verify:
        columns |= {f"{head} (refit)": number(f"{way}_verified", 0) for way, head in heads.items()}
    return [
        table(f"Fewest changes that swap two neighbours · {title}", pairs, columns, text=["Model", "Above"]),
        table("Fewest changes that put another model among the best k", best, {"k": word("k"), **ways}),
        table(
            "Annotators whose removal changes scores most",
            annotators,
            {
                "Annotator": word("annotator"), "Votes": word("votes"),
                "Points (rms)": number("points", 1), "Points (most)": number("most", 1),
            },
            text=["Annotator"],
        ),
    ]  # fmt: skip


def _chart(pairs: Rows) -> Spec:
    rows = [
        {"place": place, "what": what, "count": pair[what]}
        for place, pair in enumerate(pairs, start=1)
        for what in WAYS
        if pair[what] is not None
    ]
    return side_by_side(
        panel(
            rows, "Changes that swap a model with the next", layer("point", filled=True, size=20),
            x=axis("place", "place on the board"), y=axis("count", "changes", type="log"),
            color=colours("what", "of", WAYS),
        )
    )  # fmt: skip
