import csv
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from app.rating.simulation.worlds import SimulatedVotes
from app.rating.votes.cells import Cells, aggregate

OUTCOME = {"model_a": 1.0, "model_b": 0.0, "tie": 0.5}


@pytest.fixture(scope="session")
def real_votes() -> Callable[[str], tuple[list[str], Cells]]:
    """Annotators' names and cells of a real vote file; skips where the data folder is not set."""
    folder = os.environ.get("STABLE_ARENA_DATA")
    if not folder:
        pytest.skip("STABLE_ARENA_DATA is not set: no real votes")

    def load(name: str) -> tuple[list[str], Cells]:
        with (Path(folder) / name).open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        annotators, annotator = np.unique([row["annotator"] for row in rows], return_inverse=True)
        models, model = np.unique([row[side] for side in ("model_a", "model_b") for row in rows], return_inverse=True)
        cells = aggregate(
            annotator,
            model[: len(rows)],
            model[len(rows) :],
            np.array([OUTCOME[row["winner"]] for row in rows]),
            n_annotators=len(annotators),
            n_models=len(models),
        )
        return [str(name) for name in annotators], cells

    return load


@pytest.fixture(scope="session")
def real_cells(real_votes: Callable[[str], tuple[list[str], Cells]]) -> Callable[[str], Cells]:
    """Cells of a real vote file's annotators with more than 50 votes."""

    def load(name: str) -> Cells:
        cells = real_votes(name)[1]
        return cells.where(cells.votes_by_annotator()[cells.annotator] > 50)

    return load


@pytest.fixture(scope="session")
def cells_of() -> Callable[[SimulatedVotes], Cells]:
    """Aggregate simulated votes."""

    def make(votes: SimulatedVotes) -> Cells:
        return aggregate(votes.annotator, votes.model_a, votes.model_b, votes.outcome, **votes.sizes)

    return make
