"""Adds attackers to real votes."""

from dataclasses import dataclass

import numpy as np

from app.rating.arrays import Floats, Indices
from app.rating.simulation.worlds import draw_pairs
from app.rating.votes.cells import Cells, aggregate
from stable_arena_lab.attacks.honest import Honest
from stable_arena_lab.attacks.strategies import STRATEGIES, Scene

TIES_AT_MOST = 0.49


@dataclass(frozen=True)
class Attack:
    """The behaviour of every attacker.

    Attributes
    ----------
    strategy : of `STRATEGIES`, apart from those that need other annotators' votes (copycats, framing-by-copy)
    votes_each : votes of every attacker
    chosen : whether attackers choose battles of the target; else pairs are uniform
    """

    strategy: str = "target-only"
    votes_each: int = 51
    chosen: bool = False


def votes_of_attackers(
    public: Floats, target: int, attack: Attack, *, number: int, tie_share: float, seed: int
) -> Cells:
    """Return the votes of `number` attackers; an attacker's votes depend on the seed, not on the number.

    Parameters
    ----------
    public : scores that they see, Elo points, shape (n_models,)
    """
    parts = [_votes_of(public, target, attack, tie_share, np.random.default_rng([seed, k])) for k in range(number)]
    left, right, outcome = (np.concatenate(column) for column in zip(*parts, strict=True))
    annotator = np.repeat(np.arange(number), attack.votes_each)
    return aggregate(annotator, left, right, outcome, n_annotators=number, n_models=len(public))


def join(cells: Cells, new: Cells) -> Cells:
    """Return the cells of both, the new annotators numbered after the others."""
    return Cells(
        np.concatenate([cells.annotator, new.annotator + cells.n_annotators]).astype(np.int32),
        np.concatenate([cells.model_a, new.model_a]),
        np.concatenate([cells.model_b, new.model_b]),
        np.concatenate([cells.n, new.n]),
        np.concatenate([cells.s, new.s]),
        np.concatenate([cells.ties, new.ties]),
        cells.n_annotators + new.n_annotators,
        cells.n_models,
    )


def _votes_of(
    public: Floats, target: int, attack: Attack, tie_share: float, generator: np.random.Generator
) -> tuple[Indices, Indices, Floats]:
    """Draw one attacker's battles and outcomes."""
    size, each = len(public), attack.votes_each
    left, right = draw_pairs(generator, size, each)
    if attack.chosen:
        left = np.full(each, target)
        right = (target + generator.integers(1, size, each)) % size
    one = Honest(np.ones(1), public[None, :], np.array([tie_share]), np.zeros(1))
    first = np.zeros(each, dtype=np.int64)
    honest = one.vote(first, left, right, generator)
    age = (np.arange(each) + 0.5) / each
    scene = Scene(first, left, right, honest, age, public, target, tie_share)
    return left, right, STRATEGIES[attack.strategy](scene, generator)
