import numpy as np
import polars as pl
from numpy.typing import NDArray

from app.rating.data.arrays import OUTCOME_VALUES
from app.rating.data.indexed import IndexedVotes


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
