"""Loads compiled kernels, by rating a small made-up arena."""

from dataclasses import replace
from functools import cache

import numpy as np

from app.rating.arrays import Floats, Ints
from app.rating.settings import FlagRule, Interval, LoopSettings, Method
from app.rating.uncertainty.rating import Rating
from app.rating.uncertainty.results import Diagnostics, ModelEstimates
from app.rating.verdict.round import run_round
from app.rating.votes.cells import Cells, aggregate

SETTINGS = LoopSettings(min_votes=0)


@cache
def load_kernels(method: Method, flag_rule: FlagRule, interval: Interval) -> None:
    """Load the kernels of a round with these settings, those that aggregate votes first.

    The first of a process takes an eighth of a second, the others milliseconds. Another thread can do this beside the
    reading of votes.
    """
    publish(run_round(draw_sparse(), replace(SETTINGS, method=method, flag_rule=flag_rule, interval=interval)))


def publish(rating: Rating) -> tuple[ModelEstimates, Diagnostics]:
    """Make what is made when it is first asked for."""
    return rating.models, rating.diagnostics


def draw_sparse() -> Cells:
    """Return an arena of 40 models and 100 annotators with four votes each."""
    return aggregate(*draw_votes(100, 40, 4), n_annotators=100, n_models=40)


def draw_votes(n_annotators: int, n_models: int, votes_each: int) -> tuple[Ints, Ints, Ints, Floats]:
    """Draw votes of neighbours in a ranking, of which 70 % follow it and a fifth are ties."""
    generator, size = np.random.default_rng(0), n_annotators * votes_each
    annotator = np.repeat(np.arange(n_annotators, dtype=np.int32), votes_each)
    model_a = generator.integers(n_models, size=size, dtype=np.int32)
    model_b = (model_a + generator.integers(1, 4, size=size, dtype=np.int32)) % np.int32(n_models)
    follows = generator.choice([True, False], size=size, p=[0.7, 0.3])
    outcome = np.where(follows == (model_a < model_b), 1.0, 0.0)
    outcome[::5] = 0.5
    return annotator, model_a, model_b, outcome
