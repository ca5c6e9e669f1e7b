import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from app.cli.progress import showing_stages
from app.errors import BadInputError
from app.rating.settings import LoopSettings
from stable_arena_lab.arenas import Arena
from stable_arena_lab.attacks.arena import Votes
from stable_arena_lab.commands.charts import Spec, axis, category, colours, layer, panel, side_by_side
from stable_arena_lab.commands.options import FigureOption, FormatOption, MinVotesOption, ProcessesOption, SeedOption
from stable_arena_lab.commands.report import Report, Row, Rows, Table, check_figure, publish, table, word
from stable_arena_lab.commands.sources import open_source
from stable_arena_lab.defences.false_positives import AS_VOTED, find_false_positives


def wronged(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Votes: CSV, JSONL (both also .gz, .zst) or Parquet.")],
    repeats: Annotated[int, typer.Option(min=1, help="Honest crowds to draw for each variation.")] = 30,
    min_votes: MinVotesOption = 50,
    seed: SeedOption = 0,
    processes: ProcessesOption = 2,
    output_format: FormatOption = "table",
    figure: FigureOption = None,
) -> None:
    """Count the annotators that each test flags, and those it would flag if every annotator were honest."""
    check_figure(figure)
    started = time.perf_counter()
    with showing_stages() as stages:
        arena = open_source(file, simulated=False, min_votes=0, stages=stages).arena(seed)
        if not (np.bincount(arena.annotator) > min_votes).any():
            raise BadInputError(f"no annotator has more than {min_votes} votes")
        stages.stage("drawing honest crowds")
        settings = LoopSettings(min_votes=min_votes, flag_rule="threshold", interval="none")
        found = find_false_positives(
            _in_order(arena), settings, seeds=range(seed, seed + repeats),
            processes=processes, progress=stages.share,
        )  # fmt: skip
    rows = [asdict(row) for row in found]
    report = Report(
        experiment="wronged",
        settings={"source": file.name, "min_votes": min_votes, "repeats": repeats, "seed": seed},
        results={"rows": rows},
        tables=[_table(rows, f"{file.name}, {found[0].annotators} annotators with more than {min_votes} votes")],
        notes=[f"{AS_VOTED}: the honest annotators are unknown. In the other crowds all annotators are honest."],
        chart=_chart(rows),
        seconds=time.perf_counter() - started,
    )
    publish(report, output_format, figure)


def _in_order(arena: Arena) -> Votes:
    """Return an arena's votes in the recorded order, model_a on the left."""
    left, right = (np.asarray(side, dtype=np.int64) for side in (arena.model_a, arena.model_b))
    annotator, time = np.asarray(arena.annotator, dtype=np.int64), np.arange(arena.n_votes)
    return Votes(annotator, left, right, arena.outcome, time, arena.n_annotators, arena.n_models)


def _table(rows: Rows, title: str) -> Table:
    """Return one line for each crowd, one column for each rule."""
    lines: dict[str, dict[str, str]] = {}
    for row in rows:
        lines.setdefault(row["nature"], {"Crowd": row["nature"]})[row["rule"]] = f"{100 * row['share']:.2f}"
    shown: list[Row] = list(lines.values())
    return table(f"Annotators flagged, % · {title}", shown, {name: word(name) for name in shown[0]}, text=["Crowd"])


def _chart(rows: Rows) -> Spec:
    natures = list(dict.fromkeys(row["nature"] for row in rows))
    return side_by_side(
        panel(
            rows, "Annotators flagged", layer("point", filled=True, size=40),
            x=axis("share", "share", zero=True), y=category("rule", None, list(dict.fromkeys(r["rule"] for r in rows))),
            color=colours("nature", "crowd", natures),
        )
    )  # fmt: skip
