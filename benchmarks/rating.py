"""The rating engine beside its peers and itself: the same votes, the same process, medians of five.

`python -m benchmarks.rating [row …]`; rows: real, arena-rank, long-tail, file, evalica, crowd-kit, paper, scale, warm,
threads, bias, style.
"""

import csv
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import evalica
import numpy as np
import pandas as pd
import polars as pl
from scipy.special import expit
from scipy.stats import spearmanr

from app.imports.formats import read_vote_file
from app.rating.fit.am_elo import fit_am_elo
from app.rating.fit.m_elo import fit_m_elo
from app.rating.fit.scale import ELO_PER_NATURAL
from app.rating.fit.solution import Start
from app.rating.settings import LoopSettings
from app.rating.simulation.worlds import SimulatedVotes, simulate_votes
from app.rating.uncertainty.results import Diagnostics, ModelEstimates
from app.rating.verdict.round import run_round
from app.rating.verdict.style import control_style
from app.rating.votes.cells import Cells, aggregate
from app.rating.votes.features import Features
from app.rating.votes.indexed import IndexedVotes
from benchmarks.measure import ROOT, RUNS, Row, floor, in_fresh_process, one_processor, seconds
from benchmarks.peers import WINNER, arena_rank, arena_rank_frame, crowd_kit, crowd_kit_frame, paper_steps
from benchmarks.worlds import cells_of, large, long_tail, million, pairs_of

M_ELO = LoopSettings(method="m-elo", min_votes=0, interval="sandwich")
AM_ELO = LoopSettings(min_votes=0, flag_rule="threshold")
PAPER_STEPS, TIMED_STEPS = 2_000, 20
NEW_SHARE = 0.01


def publish(cells: Cells, settings: LoopSettings, start: Start | None = None) -> tuple[ModelEstimates, Diagnostics]:
    rating = run_round(cells, settings, start=start)
    return rating.models, rating.diagnostics  # what a leaderboard shows is made when it is first asked for


def am_elo(votes: SimulatedVotes) -> tuple[ModelEstimates, Diagnostics]:
    return publish(cells_of(votes), AM_ELO)


def against_arena_rank() -> Iterator[Row]:
    votes = million()
    frame = arena_rank_frame(votes)
    theirs = seconds(lambda: arena_rank(frame))
    ours, least = seconds(lambda: am_elo(votes)), floor(cells_of(votes))
    yield Row(
        "am-ELO + clustered intervals, 1M votes", ours, "arena-rank, Bradley-Terry + sandwich", theirs, 0.15, least
    )
    ours = seconds(lambda: publish(pairs_of(votes), M_ELO))
    yield Row("m-ELO + sandwich, 1M votes, pair table", ours, "the same", theirs, 0.10, floor(pairs_of(votes)))
    ours = seconds(lambda: publish(cells_of(votes), M_ELO))
    yield Row("m-ELO + sandwich, 1M votes, annotators kept", ours, "the same", theirs, 0.10, least)


def on_a_long_tail() -> Iterator[Row]:
    votes = long_tail()
    frame = arena_rank_frame(votes)
    theirs = seconds(lambda: arena_rank(frame))
    ours, least = seconds(lambda: am_elo(votes)), floor(cells_of(votes))
    yield Row("am-ELO + clustered intervals, long tail", ours, "arena-rank, the same", theirs, 0.2, least)


def rate_a_file() -> Iterator[Row]:
    """Time the command from its start to its end, less reading the file: arena-rank begins with votes in memory."""
    votes = long_tail()
    frame = arena_rank_frame(votes)
    theirs = seconds(lambda: arena_rank(frame))
    with tempfile.TemporaryDirectory() as folder:
        file, board = Path(folder) / "votes.parquet", Path(folder) / "board.json"
        words = np.array(["model_b", "tie", "model_a"])[(2.0 * votes.outcome).astype(int)]
        names = {
            side: np.char.add(f"{side[0]} ", getattr(votes, side).astype(str))
            for side in ("annotator", "model_a", "model_b")
        }
        pl.DataFrame({**names, "winner": words}).write_parquet(file)

        def run(*options: str) -> float:
            command = [sys.executable, "-m", "app.cli", "rate", str(file), "--min-votes", "0", "--output", str(board)]
            began = time.perf_counter()
            subprocess.run([*command, *options], cwd=ROOT, check=True, capture_output=True)
            return time.perf_counter() - began

        reading = seconds(lambda: read_vote_file(file))
        run()  # compiles
        ours, tested = (
            statistics.median(run("--flag-rule", rule) for _ in range(RUNS)) - reading
            for rule in ("threshold", "evidence")
        )
    yield Row("rate of a Parquet file, long tail", ours, "arena-rank, the same", theirs, 0.35, floor(cells_of(votes)))
    print(f"  with the tests on annotators, its default: {tested:.4f} s. Reading, left out of both: {reading:.4f} s")


def against_evalica() -> Iterator[Row]:
    votes = million()
    words = {1.0: evalica.Winner.X, 0.0: evalica.Winner.Y, 0.5: evalica.Winner.Draw}
    winners = [words[outcome] for outcome in votes.outcome.tolist()]
    names_a, names_b = votes.model_a.tolist(), votes.model_b.tolist()
    theirs = seconds(lambda: evalica.bradley_terry(names_a, names_b, winners))
    indexing = seconds(lambda: evalica.indexing(names_a, names_b))
    label = np.zeros(votes.sizes["n_models"], dtype=np.int64)
    ours, least = seconds(lambda: fit_m_elo(pairs_of(votes), label)), floor(pairs_of(votes))
    yield Row("m-ELO, 1M votes", ours, "evalica bradley_terry", theirs, 0.15, least)
    print(
        f"  of evalica's time {indexing:.4f} s go into numbering the names; our votes come numbered. Against the rest:"
    )
    yield Row("m-ELO, 1M votes", ours, "evalica bradley_terry less indexing", theirs - indexing, 0.15, least)


def against_crowd_kit() -> Iterator[Row]:
    votes = simulate_votes(0, n_models=20, roles={"honest": 190, "random": 6, "flip": 4}, votes_each=100)
    frame, n_models = crowd_kit_frame(votes), votes.sizes["n_models"]
    theirs, ours = seconds(lambda: crowd_kit(frame, n_models), warm=False), seconds(lambda: am_elo(votes))
    yield Row(
        "am-ELO + clustered, 20,000 votes", ours, "crowd-kit NoisyBradleyTerry", theirs, 0.005, floor(cells_of(votes))
    )
    truth = votes.world.score
    scores = {"am-ELO": am_elo(votes)[0].score, "crowd-kit": crowd_kit(frame, n_models)}
    found = ", ".join(f"{who} {spearmanr(score, truth).statistic:.4f}" for who, score in scores.items())
    print(f"  rank correlation with the truth: {found}")


def against_the_paper() -> Iterator[Row]:
    votes = million()
    theirs = seconds(lambda: paper_steps(votes, TIMED_STEPS), warm=False) * PAPER_STEPS / TIMED_STEPS
    ours = seconds(lambda: publish(cells_of(votes), replace(AM_ELO, interval="none")))
    peer = f"the paper's Adam, {TIMED_STEPS} steps scaled"
    yield Row("am-ELO, 1M votes", ours, peer, theirs, 0.01, floor(cells_of(votes)))


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
    columns = (votes.annotator[old], votes.model_a[old], votes.model_b[old], votes.outcome[old])
    start = run_round(aggregate(*columns, n_annotators=20_000, n_models=200), AM_ELO).optimum
    cells = cells_of(votes)

    least = floor(cells)
    warm, cold = seconds(lambda: publish(cells, AM_ELO, start)), seconds(lambda: publish(cells, AM_ELO))
    yield Row("warm refit with 1 % new votes, 1M", warm, "cold", cold, 0.4, least)
    warm, cold = (statistics.median(fit_seconds(cells, begin) for _ in range(RUNS)) for begin in (start, None))
    yield Row("of that: the fit alone", warm, "cold", cold, 0.4, least)


def fit_seconds(cells: Cells, start: Start | None) -> float:
    """Time of the maximisation, without what follows it: bias, intervals, board."""
    begin = None
    if start is not None:
        unit = start.median_ability
        begin = start.score / (ELO_PER_NATURAL * unit), start.ability * unit
    began = time.perf_counter()
    fit_am_elo(cells, np.zeros(cells.n_models, dtype=np.int64), start=begin)
    return time.perf_counter() - began


def bias_correction() -> Iterator[Row]:
    cells = cells_of(million())
    plain = replace(AM_ELO, bias_correction=False)
    ours, without = seconds(lambda: publish(cells, AM_ELO)), seconds(lambda: publish(cells, plain))
    yield Row("am-ELO + clustered, bias corrected, 1M", ours, "not corrected", without, 1.1, floor(cells))


def style_control() -> Iterator[Row]:
    """Time the round and its votes fitted again with four features, each annotator with leans of its own."""
    million_votes, generator = million(), np.random.default_rng(5)
    n_annotators, size = million_votes.sizes["n_annotators"], len(million_votes.outcome)
    z = np.column_stack([np.ones(size), generator.normal(size=(size, 3))])
    k, a, b = million_votes.annotator, million_votes.model_a, million_votes.model_b
    R = million_votes.world.score / ELO_PER_NATURAL
    leans = np.array([0.2, 0.3, 0.1, 0.0]) + generator.normal(0.0, 0.3, (n_annotators, 4))
    outcome = generator.random(size) < expit(R[a] - R[b] + (z * leans[k]).sum(axis=1))
    names, n_models = [str(i) for i in range(n_annotators)], million_votes.sizes["n_models"]
    pairs = k.astype(np.int32), a.astype(np.int32), b.astype(np.int32)
    votes = IndexedVotes(names, names[:n_models], *pairs, outcome.astype(np.float64))

    def controlled() -> object:
        rating = run_round(votes.aggregate(), AM_ELO)
        return control_style(rating, votes, Features(("side", "length", "lists", "bold"), z)).rating.models

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


def real_votes() -> Iterator[Row]:
    """m-ELO against arena-rank on the votes of annotators with more than 50."""
    folder = os.environ.get("STABLE_ARENA_DATA")
    if not folder:
        print("STABLE_ARENA_DATA is not set: no comparison on real votes")
        return
    file = Path(folder) / "llmfao.csv"
    with file.open(newline="", encoding="utf-8") as stream:
        frame = pd.DataFrame(list(csv.DictReader(stream)))
    frame = frame[frame.groupby("annotator")["annotator"].transform("size") > 50]
    theirs = arena_rank(frame)
    index = {model: i for i, model in enumerate(theirs["competitors"])}
    outcome = frame["winner"].map({word: w for w, word in WINNER.items()}).to_numpy()
    a, b = (frame[side].map(index).to_numpy() for side in ("model_a", "model_b"))
    one = np.zeros(len(a), dtype=np.int32)
    ours = run_round(aggregate(one, a, b, outcome, n_annotators=1, n_models=len(index)), M_ELO).models.score
    reference = np.asarray(theirs["ratings"])
    gap = np.abs((ours - ours.mean()) - (reference - reference.mean())).max()
    print(f"m-ELO on {file.name} ({len(frame):,} votes): at most {gap:.4f} Elo points from arena-rank's BradleyTerry")
    yield from ()


ROWS: dict[str, Callable[[], Iterator[Row]]] = {
    "real": real_votes,
    "arena-rank": against_arena_rank,
    "long-tail": on_a_long_tail,
    "file": rate_a_file,
    "evalica": against_evalica,
    "crowd-kit": against_crowd_kit,
    "paper": against_the_paper,
    "scale": ten_times_the_votes,
    "warm": warm_refit,
    "threads": two_threads,
    "bias": bias_correction,
    "style": style_control,
}

if __name__ == "__main__":
    for name in sys.argv[1:] or ROWS:
        for row in ROWS[name]():
            print(row, flush=True)
