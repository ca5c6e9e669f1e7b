"""The rating engine beside arena-rank and evalica: the same votes, the same process, medians of five."""

import csv
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import evalica
import numpy as np
import pandas as pd
from arena_rank.models.bradley_terry import BradleyTerry
from arena_rank.utils.data_utils import PairDataset

from app.lab.simulate import SimulatedVotes, simulate_votes
from app.rating.results import LoopSettings, Rating
from app.rating.stable_arena import run_stable_arena
from app.rating.votes import aggregate

RUNS = 5
WINNER = {1.0: "model_a", 0.0: "model_b", 0.5: "tie"}
M_ELO = LoopSettings(method="m-elo", min_votes=0, interval="sandwich")
AM_ELO = LoopSettings(min_votes=0)


def seconds(work: Callable[[], object]) -> float:
    """Median time of five runs after one that is not counted (it compiles what is compiled)."""
    times = []
    for _ in range(RUNS + 1):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return statistics.median(times[1:])


def rate(votes: SimulatedVotes, settings: LoopSettings) -> Rating:
    cells = aggregate(
        votes.annotator,
        votes.model_a,
        votes.model_b,
        votes.outcome,
        n_annotators=votes.sizes["n_annotators"],
        n_models=votes.sizes["n_models"],
    )
    return run_stable_arena(cells, settings)


def arena_rank(frame: pd.DataFrame) -> dict[str, Any]:
    dataset = PairDataset.from_pandas(frame)
    result: dict[str, Any] = BradleyTerry(n_competitors=dataset.n_competitors).compute_ratings_and_cis(dataset)
    return result


def agree_on_real_votes(file: Path) -> None:
    """m-ELO against arena-rank on the votes of annotators with more than 50."""
    with file.open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    frame = pd.DataFrame(rows)
    frame = frame[frame.groupby("annotator")["annotator"].transform("size") > 50]
    theirs = arena_rank(frame)
    annotator, _ = pd.factorize(frame["annotator"])
    index = {model: i for i, model in enumerate(theirs["competitors"])}
    outcome = frame["winner"].map({word: w for w, word in WINNER.items()}).to_numpy()
    a, b = (frame[side].map(index).to_numpy() for side in ("model_a", "model_b"))
    cells = aggregate(annotator, a, b, outcome, n_annotators=int(annotator.max()) + 1, n_models=len(index))
    ours = run_stable_arena(cells, M_ELO).board.score
    reference = np.asarray(theirs["ratings"])
    gap = np.abs((ours - ours.mean()) - (reference - reference.mean())).max()
    print(f"m-ELO on {file.name} ({len(frame):,} votes): at most {gap:.4f} Elo points from arena-rank's BradleyTerry")


def compare(votes: SimulatedVotes) -> None:
    """Time 1M votes, 200 models, 20,000 annotators."""
    frame = pd.DataFrame(
        {
            "model_a": votes.model_a,
            "model_b": votes.model_b,
            "winner": pd.Series(votes.outcome).map(WINNER),
        }
    )
    winners = [
        {1.0: evalica.Winner.X, 0.0: evalica.Winner.Y, 0.5: evalica.Winner.Draw}[w] for w in votes.outcome.tolist()
    ]
    names_a, names_b = votes.model_a.tolist(), votes.model_b.tolist()
    peers = {
        "arena-rank, Bradley-Terry + sandwich": seconds(lambda: arena_rank(frame)),
        "evalica bradley_terry": seconds(lambda: evalica.bradley_terry(names_a, names_b, winners)),
    }
    ours = {
        "m-ELO + sandwich": seconds(lambda: rate(votes, M_ELO)),
        "am-ELO + clustered intervals": seconds(lambda: rate(votes, AM_ELO)),
    }
    print(f"\n{len(votes.outcome):,} votes, medians of {RUNS}, seconds")
    for name, took in (ours | peers).items():
        ratios = ", ".join(f"{took / peer:.2f} × {who.split(',')[0].split()[0]}" for who, peer in peers.items())
        print(f"  {name:<40}{took:8.2f}   {ratios if name in ours else ''}")


if __name__ == "__main__":
    folder = os.environ.get("STABLE_ARENA_DATA")
    if folder:
        agree_on_real_votes(Path(folder) / "llmfao.csv")
    else:
        print("STABLE_ARENA_DATA is not set: no comparison on real votes")
    compare(simulate_votes(0, n_models=200, roles={"honest": 19_000, "random": 600, "flip": 400}, votes_each=50))
