"""The votes that the benchmarks rate: simulated, with fixed seeds."""

from functools import cache

import numpy as np

from app.rating.simulation.worlds import Role, SimulatedVotes, draw_pairs, make_world, simulate_votes
from app.rating.votes.cells import Cells, aggregate
from benchmarks.size import sized

MODELS = sized(200, 20)
SHARES: dict[Role, int] = sized({"honest": 19_000, "random": 600, "flip": 400}, {"honest": 190, "random": 6, "flip": 4})


def large(millions: int) -> SimulatedVotes:
    """Draw that many million votes on 200 models, 50 from each annotator."""
    roles: dict[Role, int] = {role: millions * share for role, share in SHARES.items()}
    return simulate_votes(0, n_models=MODELS, roles=roles, votes_each=50)


@cache
def million() -> SimulatedVotes:
    return large(1)


@cache
def long_tail() -> SimulatedVotes:
    """Draw a million votes on 200 models by 20,000 annotators, 10 % bad: votes per annotator ∝ rank^−0.8."""
    generator = np.random.default_rng(0)
    roles: dict[Role, int] = {"honest": 18_000, "random": 1_000, "flip": 1_000}
    world, number = make_world(generator, n_models=200, roles=roles), sum(roles.values())
    share = np.arange(1.0, number + 1.0) ** -0.8
    annotator = generator.permutation(number)[generator.choice(number, 1_000_000, p=share / share.sum())]
    model_a, model_b = draw_pairs(generator, 200, len(annotator))
    outcome = world.vote(annotator, model_a, model_b, generator)
    return SimulatedVotes(world, annotator, model_a, model_b, outcome, {"n_annotators": number, "n_models": 200})


def cells_of(votes: SimulatedVotes) -> Cells:
    n_annotators, n_models = votes.sizes["n_annotators"], votes.sizes["n_models"]
    return aggregate(
        votes.annotator, votes.model_a, votes.model_b, votes.outcome, n_annotators=n_annotators, n_models=n_models
    )


def pairs_of(votes: SimulatedVotes) -> Cells:
    """As if one annotator had cast them all: all that m-ELO needs."""
    one, n_models = np.zeros(len(votes.outcome), dtype=np.int32), votes.sizes["n_models"]
    return aggregate(one, votes.model_a, votes.model_b, votes.outcome, n_annotators=1, n_models=n_models)
