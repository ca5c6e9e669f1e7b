"""Simulated arenas with known true scores, for tests, benchmarks, the demo and the laboratory."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from app.rating.arrays import Floats, Indices
from app.rating.units import NATURAL_PER_ELO

Role = Literal["honest", "random", "flip", "equal", "clique"]
ROLES: tuple[Role, ...] = get_args(Role)
CLIQUE_ABILITY = 3.0


@dataclass(frozen=True)
class World:
    """The truth of a simulated arena.

    Attributes
    ----------
    score : true scores, Elo points, mean 1000, shape (n_models,)
    ability : true abilities in units of the typical honest annotator, shape (n_annotators,): honest ones log-normal
        around 1, random and equal 0, flip negative, clique high
    role : shape (n_annotators,)
    target : the model that the clique always votes for
    tie_share : probability of a tie between two equally good models
    """

    score: Floats
    ability: Floats
    role: NDArray[np.str_]
    target: int
    tie_share: float

    def vote(
        self,
        annotator: NDArray[np.integer],
        model_a: NDArray[np.integer],
        model_b: NDArray[np.integer],
        generator: np.random.Generator,
    ) -> Floats:
        """Draw W for each (annotator, model_a, model_b): 1, 0.5 or 0, shape (n_votes,).

        Honest votes have mean σ(a_k (S_a − S_b) ln 10/400), and a tie probability of 4 p (1 − p) × tie_share.
        """
        difference = NATURAL_PER_ELO * (self.score[model_a] - self.score[model_b])
        p = 1.0 / (1.0 + np.exp(-self.ability[annotator] * difference))
        tie = 4.0 * p * (1.0 - p) * self.tie_share
        draw = generator.random(len(annotator))
        outcome = np.where(draw < p - tie / 2.0, 1.0, np.where(draw < p + tie / 2.0, 0.5, 0.0))
        role = self.role[annotator]
        outcome = np.where(role == "equal", 0.5, outcome)
        outcome = np.where((role == "clique") & (model_a == self.target), 1.0, outcome)
        return np.where((role == "clique") & (model_b == self.target), 0.0, outcome)


@dataclass(frozen=True)
class SimulatedVotes:
    """Votes of a world, arrays of shape (n_votes,), ready for `app.rating.votes.cells.aggregate`."""

    world: World
    annotator: Indices
    model_a: Indices
    model_b: Indices
    outcome: Floats
    sizes: dict[str, int] = field(default_factory=dict)


def make_world(
    generator: np.random.Generator,
    *,
    n_models: int = 20,
    roles: Mapping[Role, int],
    score_sd: float = 140.0,
    ability_sd: float = 0.3,
    tie_share: float = 0.35,
) -> World:
    """Draw scores ~ N(1000, score_sd²) and log-normal honest abilities; the clique's target is the worst but one."""
    n_annotators = sum(roles.values())
    score = 1000.0 + score_sd * generator.standard_normal(n_models)
    role = np.repeat(np.array(list(roles), dtype="<U8"), list(roles.values()))
    ability = np.exp(ability_sd * generator.standard_normal(n_annotators))
    ability = np.where(np.isin(role, ["random", "equal"]), 0.0, ability)
    ability = np.where(role == "flip", -ability, ability)
    ability = np.where(role == "clique", CLIQUE_ABILITY, ability)
    target = int(np.argsort(score)[min(1, n_models - 1)])
    return World(score, ability, role, target, tie_share)


def simulate_votes(
    seed: int,
    *,
    n_models: int = 20,
    roles: Mapping[Role, int] | None = None,
    votes_each: int = 100,
    score_sd: float = 140.0,
    ability_sd: float = 0.3,
    tie_share: float = 0.35,
) -> SimulatedVotes:
    """Draw a world and `votes_each` votes by every annotator on uniform pairs; the same seed, the same votes."""
    generator = np.random.default_rng(seed)
    roles = {"honest": 42} if roles is None else roles
    world = make_world(
        generator, n_models=n_models, roles=roles, score_sd=score_sd, ability_sd=ability_sd, tie_share=tie_share
    )
    annotator = np.repeat(np.arange(len(world.ability)), votes_each)
    model_a, model_b = draw_pairs(generator, n_models, len(annotator))
    outcome = world.vote(annotator, model_a, model_b, generator)
    sizes = {"n_annotators": len(world.ability), "n_models": n_models}
    return SimulatedVotes(world, annotator, model_a, model_b, outcome, sizes)


def draw_pairs(generator: np.random.Generator, n_models: int, n_votes: int) -> tuple[Indices, Indices]:
    """Draw ordered pairs of two different models, uniformly."""
    model_a = generator.integers(0, n_models, n_votes)
    model_b = (model_a + generator.integers(1, n_models, n_votes)) % n_models
    return model_a, model_b
