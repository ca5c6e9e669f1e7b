"""The peers' ways to the same scores."""

from typing import Any

import numpy as np
import pandas as pd
from arena_rank.models.bradley_terry import BradleyTerry
from arena_rank.utils.data_utils import PairDataset
from crowdkit.aggregation import NoisyBradleyTerry

from app.rating.arrays import Floats
from app.rating.simulation.worlds import SimulatedVotes

WINNER = {1.0: "model_a", 0.0: "model_b", 0.5: "tie"}
LEARNING_RATE, BETA1, BETA2, TINY = 0.1, 0.9, 0.999, 1e-8


def arena_rank_frame(votes: SimulatedVotes) -> pd.DataFrame:
    winner = pd.Series(votes.outcome).map(WINNER)
    return pd.DataFrame({"model_a": votes.model_a, "model_b": votes.model_b, "winner": winner})


def arena_rank(frame: pd.DataFrame) -> dict[str, Any]:
    dataset = PairDataset.from_pandas(frame)
    result: dict[str, Any] = BradleyTerry(n_competitors=dataset.n_competitors).compute_ratings_and_cis(dataset)
    return result


def crowd_kit_frame(votes: SimulatedVotes) -> pd.DataFrame:
    """Only decided votes: it knows no ties."""
    decided = votes.outcome != 0.5
    columns = {"worker": votes.annotator, "left": votes.model_a, "right": votes.model_b}
    frame = pd.DataFrame({name: values[decided] for name, values in columns.items()})
    return frame.assign(label=np.where(votes.outcome[decided] == 1.0, frame["left"], frame["right"]))


def crowd_kit(frame: pd.DataFrame, n_models: int) -> Floats:
    scores = NoisyBradleyTerry(n_iter=100).fit_predict(frame)
    by_model: Floats = scores.reindex(range(n_models)).to_numpy(dtype=np.float64)
    return by_model


def paper_steps(votes: SimulatedVotes, steps: int) -> tuple[Floats, Floats]:
    """Take the am-ELO paper's steps: Adam, lr 0.1, every vote in each, abilities brought to sum 1 after it.

    Votes are collected by `bincount`, a good deal faster than the row by row gradients of an automatic one.
    """
    n_models, n_annotators = votes.sizes["n_models"], votes.sizes["n_annotators"]
    k, a, b, W = votes.annotator, votes.model_a, votes.model_b, votes.outcome
    R, theta = np.zeros(n_models), np.full(n_annotators, 1.0 / n_annotators)
    mean, square = np.zeros(n_models + n_annotators), np.zeros(n_models + n_annotators)
    for step in range(1, steps + 1):
        d = R[a] - R[b]
        residual = W - 1.0 / (1.0 + np.exp(-theta[k] * d))
        pull = residual * theta[k]
        by_model = np.bincount(a, pull, n_models) - np.bincount(b, pull, n_models)
        gradient = np.concatenate([by_model, np.bincount(k, residual * d, n_annotators)])
        mean = BETA1 * mean + (1.0 - BETA1) * gradient
        square = BETA2 * square + (1.0 - BETA2) * gradient**2
        change = LEARNING_RATE * (mean / (1.0 - BETA1**step)) / (np.sqrt(square / (1.0 - BETA2**step)) + TINY)
        R, theta = R + change[:n_models], theta + change[n_models:]
        theta = theta / theta.sum()
    return R, theta
