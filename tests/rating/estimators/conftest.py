import polars as pl
import pytest

from tests.fixtures.crowds import crowd_votes


@pytest.fixture(scope="session")
def votes() -> pl.DataFrame:
    """24 honest annotators, 2 who vote against the ranking, and 1 who always takes the left answer; 120 votes each."""
    crowd = pl.DataFrame(crowd_votes(honest=24, flip=2))
    shown = crowd.filter(pl.col("annotator") == "honest 0")
    left = shown.with_columns(winner=pl.lit("model_a"), annotator=pl.lit("left 26"))
    return pl.concat([crowd, left])
