"""Simulated votes by annotators with leans on answers that differ in features."""

from dataclasses import dataclass

import numpy as np

from app.rating.arrays import Floats
from app.rating.model.features import fit_features
from app.rating.settings import SIDE, LoopSettings
from app.rating.units import ELO_PER_NATURAL
from app.rating.votes.cells import Compact, compact
from app.rating.votes.features import featured_cells
from app.rating.votes.indexed import IndexedVotes
from app.rating.votes.measures import Features

GAMMA = np.array([0.2, 0.3])
STYLE_SD = 0.5  # of the models' own style, beside which answers vary by 1


SETTINGS = LoopSettings(min_votes=0, flag_rule="threshold")


@dataclass(frozen=True)
class StyledWorld:
    """Votes, and what they were drawn from, in log-odds of the mean annotator."""

    votes: IndexedVotes
    features: Features
    R: Floats
    gamma: Floats
    ability: Floats
    leans: Floats | None = None

    def compact(self) -> Compact:
        """Return the votes' cells."""
        return compact(self.votes.aggregate())


def draw_styled(
    annotators: int, votes_each: int, *, n_models: int = 10, ability_sd: float = 0.3, lean_sd: float = 0.3,
    seed: int = 1,
) -> StyledWorld:  # fmt: skip
    """Draw votes with the features side and length: P(left) = σ(a_k (R_i − R_j + zᵀγ) + zᵀb_k)."""
    generator, size = np.random.default_rng(seed), annotators * votes_each
    R = generator.normal(0.0, 140.0 / ELO_PER_NATURAL, n_models)
    R -= R.mean()
    ability, leans = generator.normal(1.0, ability_sd, annotators), generator.normal(0.0, lean_sd, (annotators, 2))
    k = np.repeat(np.arange(annotators, dtype=np.int32), votes_each)
    left = generator.integers(n_models, size=size, dtype=np.int32)
    right = (left + generator.integers(1, n_models, size=size, dtype=np.int32)) % np.int32(n_models)
    style = generator.normal(0.0, STYLE_SD, n_models)
    length = style[left] - style[right] + generator.normal(0.0, 1.0, size)
    z = np.column_stack([np.ones(size), length / np.sqrt(np.mean(length**2))])
    x = ability[k] * (R[left] - R[right] + z @ GAMMA) + (z * leans[k]).sum(axis=1)
    outcome = (generator.random(size) < 1.0 / (1.0 + np.exp(-x))).astype(np.float64)
    names = [f"k{i:04}" for i in range(annotators)], [f"m{i:02}" for i in range(n_models)]
    votes = IndexedVotes(*names, k, left, right, outcome)
    return StyledWorld(votes, Features((SIDE, "length"), z), R, GAMMA, ability, leans)


def styled_records() -> list[dict[str, object]]:
    """Return votes of 30 annotators, 60 each, with the measures of LMArena's files."""
    world = draw_styled(30, 60, n_models=5)
    drawn, length = world.votes, world.features.values[:, 1]
    return [
        {
            "annotator": drawn.annotators[drawn.annotator[i]],
            "model_a": drawn.models[drawn.model_a[i]],
            "model_b": drawn.models[drawn.model_b[i]],
            "winner": "model_a" if drawn.outcome[i] else "model_b",
            "conv_metadata": {
                "sum_assistant_a_tokens": 100 + round(float(length[i]) * 10),
                "sum_assistant_b_tokens": 100,
                "header_count_a": {"h1": i % 3, "h2": 1},
                "header_count_b": {"h1": 1},
            },
        }
        for i in range(len(length))
    ]


def fit_styled() -> Floats:
    """Return scores, γ and leans of a small world, fitted on the executors in force."""
    world = draw_styled(12, 60, n_models=5)
    found = fit_features(featured_cells(world.votes, world.features, world.compact()))
    return np.concatenate([found.fit.R, found.leans.lean.ravel()])
