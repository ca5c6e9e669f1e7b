"""The rating engine beside its peers: the same votes, the same process, medians of five.

`python -m benchmarks.beside_peers [row …]`, in the peers' environment (`benchmarks.run`); rows: real, arena-rank,
long-tail, file, evalica, crowd-kit, paper.
"""

import csv
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import evalica
import numpy as np
import pandas as pd
import polars as pl
from scipy.stats import spearmanr

from app.imports.formats.whole import read_vote_file
from app.rating.plain.m_elo import fit_m_elo
from app.rating.settings import LoopSettings
from app.rating.simulation.worlds import simulate_votes
from app.rating.verdict.round import run_round
from app.rating.votes.cells import aggregate
from benchmarks.measure import ROOT, RUNS, Row, Rows, floor, print_rows, seconds
from benchmarks.peers import WINNER, arena_rank, arena_rank_frame, crowd_kit, crowd_kit_frame, paper_steps
from benchmarks.rating import AM_ELO, am_elo, publish
from benchmarks.worlds import cells_of, long_tail, million, pairs_of

M_ELO = LoopSettings(method="m-elo", min_votes=0, interval="sandwich")
PAPER_STEPS, TIMED_STEPS = 2_000, 20


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
    ours, least = seconds(lambda: fit_m_elo(pairs_of(votes))), floor(pairs_of(votes))
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


ROWS: Rows = {
    "real": real_votes,
    "arena-rank": against_arena_rank,
    "long-tail": on_a_long_tail,
    "file": rate_a_file,
    "evalica": against_evalica,
    "crowd-kit": against_crowd_kit,
    "paper": against_the_paper,
}

if __name__ == "__main__":
    print_rows(ROWS)
