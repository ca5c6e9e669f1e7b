from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from app.rating.data.arrays import OUTCOME_VALUES


@dataclass(frozen=True)
class IndexedVotes:
    """Votes as `app.rating.data.votes.aggregate` takes them.

    Attributes
    ----------
    annotators, models : names in sorted order; the index of a name is its position.
    annotator, model_a, model_b : int32 arrays, shape (n_votes,)
    outcome : float64 array, shape (n_votes,); W of each vote.
    """

    annotators: list[str]
    models: list[str]
    annotator: NDArray[np.int32]
    model_a: NDArray[np.int32]
    model_b: NDArray[np.int32]
    outcome: NDArray[np.float64]


def encode(frame: pl.DataFrame) -> IndexedVotes:
    """Return the votes of `VoteFile.frame`, names numbered in sorted order, whatever the order of the votes."""
    annotators = frame["annotator"].unique().sort()
    models = pl.concat([frame["model_a"], frame["model_b"].alias("model_a")]).unique().sort()
    return IndexedVotes(
        annotators=annotators.to_list(),
        models=models.to_list(),
        annotator=_numbered(frame["annotator"], annotators),
        model_a=_numbered(frame["model_a"], models),
        model_b=_numbered(frame["model_b"], models),
        outcome=OUTCOME_VALUES[frame["outcome"].to_numpy()],
    )


def _numbered(values: pl.Series, names: pl.Series) -> NDArray[np.int32]:
    return values.cast(pl.Enum(names)).to_physical().to_numpy().astype(np.int32)
