"""The rating engine beside itself: the same votes, the same process, medians of five.

`python -m benchmarks.rating [row …]`; rows: scale, warm, threads, style.
"""

import os
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from app.rating.fitted import Start
from app.rating.settings import LoopSettings
from app.rating.simulation.worlds import SimulatedVotes
from app.rating.uncertainty.estimate import fit_without_errors
from app.rating.uncertainty.results import Diagnostics, ModelEstimates
from app.rating.verdict.round import run_round
from app.rating.verdict.style import control_style
from app.rating.votes.cells import Cells, aggregate
from benchmarks.measure import RUNS, Row, Rows, floor, in_fresh_process, one_processor, print_rows, seconds
from benchmarks.worlds import cells_of, large, leaning, million

AM_ELO = LoopSettings(min_votes=0, flag_rule="threshold")
NEW_SHARE = 0.01


def publish(cells: Cells, settings: LoopSettings, start: Start | None = None) -> tuple[ModelEstimates, Diagnostics]:
    rating = run_round(cells, settings, start=start)
    return rating.models, rating.diagnostics  # what a leaderboard shows is made when it is first asked for


def am_elo(votes: SimulatedVotes) -> tuple[ModelEstimates, Diagnostics]:
    return publish(cells_of(votes), AM_ELO)


def ten_times_the_votes() -> Iterator[Row]:
    measured, least = {}, 0.0
    with tempfile.TemporaryDirectory() as folder:
        for millions in (1, 10):
            votes, file = large(millions), Path(folder) / "votes.npz"
            columns = {name: getattr(votes, name) for name in ("annotator", "model_a", "model_b", "outcome")}
            np.savez(file, allow_pickle=False, **columns, **{name: np.array(n) for name, n in votes.sizes.items()})
            least = floor(cells_of(votes))
            del votes, columns
            measured[millions] = in_fresh_process("benchmarks.one_fit", str(file))
    one, ten = measured[1], measured[10]
    yield Row(
        "am-ELO + clustered intervals, 10M votes", ten["seconds"], "itself, 1M votes", one["seconds"], 11.0, least
    )
    held, worked = (int(ten["peak"] - ten[since]) / 10_000_000 for since in ("before", "given"))
    print(f"  at the peak {held:.0f} bytes a vote, of them 32 the votes as given and {worked:.0f} work (target ≤ 150)")


def warm_refit() -> Iterator[Row]:
    votes = million()
    old = np.random.default_rng(0).random(len(votes.outcome)) >= NEW_SHARE
    cells = cells_of(votes)
    columns = (votes.annotator[old], votes.model_a[old], votes.model_b[old], votes.outcome[old])
    start = run_round(aggregate(*columns, n_annotators=cells.n_annotators, n_models=cells.n_models), AM_ELO).optimum
    least = floor(cells)
    warm, cold = seconds(lambda: publish(cells, AM_ELO, start)), seconds(lambda: publish(cells, AM_ELO))
    yield Row("warm refit with 1 % new votes, 1M", warm, "cold", cold, 0.4, least)
    warm, cold = (statistics.median(fit_seconds(cells, begin) for _ in range(RUNS)) for begin in (start, None))
    yield Row("of that: the fit alone", warm, "cold", cold, 0.4, least)


def fit_seconds(cells: Cells, start: Start | None) -> float:
    """Time of the fit, without what follows it: intervals, board."""
    return fit_without_errors(cells, AM_ELO, start).seconds["fit"]


def style_control() -> Iterator[Row]:
    """Time the round and its votes fitted again with four features, each annotator with leans of its own."""
    votes, features = leaning(million())

    def controlled() -> object:
        rating = run_round(votes.aggregate(), AM_ELO)
        return control_style(rating, votes, features).rating.models

    ours, without = seconds(controlled), seconds(lambda: run_round(votes.aggregate(), AM_ELO).models)
    yield Row("am-ELO + clustered, four features, 1M", ours, "without", without, 2.5, floor(votes.aggregate()))


def two_threads() -> Iterator[Row]:
    votes, pairs = million(), list[tuple[float, float]]()
    for _ in range(3 * RUNS):  # in turns: what else the machine does meets both alike
        several = seconds(lambda: am_elo(votes), runs=1)
        with one_processor():
            pairs.append((several, seconds(lambda: am_elo(votes), runs=1)))
    two, one = (statistics.median(column) for column in zip(*pairs, strict=True))
    peer = f"one thread (of {len(os.sched_getaffinity(0))})"
    yield Row("am-ELO + clustered, every thread", two, peer, one, 1.6, floor(cells_of(votes)), at_least=True)


ROWS: Rows = {
    "scale": ten_times_the_votes,
    "warm": warm_refit,
    "threads": two_threads,
    "style": style_control,
}

if __name__ == "__main__":
    print_rows(ROWS)
