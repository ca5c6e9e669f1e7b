import numpy as np
import polars as pl
from numpy.typing import NDArray

from app.rating.arrays import OUTCOME_VALUES, Floats
from app.rating.votes.indexed import IndexedVotes


def encode(frame: pl.DataFrame) -> IndexedVotes:
    """Return the votes of `VoteFile.frame`, names numbered in sorted order, whatever the order of the votes."""
    annotators, propensity = frame["annotator"].unique().sort(), frame["propensity"]
    of_ranking = frame["of_ranking"]
    models = pl.concat([frame["model_a"], frame["model_b"].alias("model_a")]).unique().sort()
    return IndexedVotes(
        annotators=annotators.to_list(),
        models=models.to_list(),
        annotator=_numbered(frame["annotator"], annotators),
        model_a=_numbered(frame["model_a"], models),
        model_b=_numbered(frame["model_b"], models),
        outcome=OUTCOME_VALUES[frame["outcome"].to_numpy()],
        weight=None if frame["weight"].null_count() == frame.height else frame["weight"].fill_null(1.0).to_numpy(),
        propensity=None if propensity.null_count() == len(propensity) else _numbers(propensity),
        share=(1.0 / of_ranking.fill_null(1)).to_numpy() if of_ranking.count() else None,
    )


def _numbers(texts: pl.Series) -> Floats:
    """Return texts as numbers, NaN where they are none."""
    return texts.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy()


def _numbered(values: pl.Series, names: pl.Series) -> NDArray[np.int32]:
    return values.cast(pl.Enum(names)).to_physical().to_numpy().astype(np.int32)
