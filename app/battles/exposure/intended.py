"""How often the policy would show each model, in the battles that were drawn."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

import numpy as np
from sqlalchemy import Connection, RowMapping

from app.rating.arrays import Floats
from app.rating.sampling.pair_weights import PairWeights, calibration_weights, pair_positions, uniform_weights
from app.snapshots.pair_weights import find_pair_weights


@dataclass
class Intended:
    """Sums over battles, by model: of the probability p of being shown, and of p(1 − p), the variance of chance."""

    mean: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    variance: dict[int, float] = field(default_factory=lambda: defaultdict(float))


def sum_intended(conn: Connection, draws: Iterable[RowMapping]) -> Intended:
    """Return what the policy intended in these draws: rows of `count_draws`, in the order of snapshots.

    That an annotator's last pairs were left out is not counted: it moves a model's share little.
    """
    intended = Intended()
    loaded: tuple[UUID | None, Mapping[str, PairWeights]] = (None, {})
    for draw in draws:
        if draw["snapshot_id"] != loaded[0]:
            snapshot_id: UUID | None = draw["snapshot_id"]
            loaded = snapshot_id, {} if snapshot_id is None else find_pair_weights(conn, snapshot_id)
        tables = loaded[1]
        candidates = np.array(draw["model_ids"], dtype=np.int64)
        tag = next((tag for tag in draw["tags"] if tag in tables), "")
        uniform = draw["drawn_by"] == "uniform" or tag not in tables
        table = uniform_weights(candidates) if uniform else tables[tag].among(candidates)
        shares = show_probabilities(table, calibrating=draw["drawn_by"] == "calibration")
        for model_id, share in zip(draw["model_ids"], shares.tolist(), strict=True):
            intended.mean[model_id] += draw["battles"] * share
            intended.variance[model_id] += draw["battles"] * share * (1.0 - share)
    return intended


def show_probabilities(table: PairWeights, *, calibrating: bool) -> Floats:
    """Return the probability that a battle shows each model: the sum over the pairs with it, shape (n_models,).

    `calibrating`: for battles that are drawn to learn about the annotator.
    """
    weight: Floats = calibration_weights(table.R) if calibrating else table.weight.astype(np.float64)
    probability: Floats = weight / weight.sum()
    size = len(table.models)
    first, second = pair_positions(size)
    shares = np.zeros(size)
    np.add.at(shares, first, probability)
    np.add.at(shares, second, probability)
    return shares
