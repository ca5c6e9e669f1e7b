"""The votes that the benchmarks rate: simulated, with fixed seeds."""

from dataclasses import replace
from functools import cache

import numpy as np
from scipy.special import expit

from app.rating.simulation.worlds import Role, SimulatedVotes, draw_pairs, make_world, simulate_votes
from app.rating.units import ELO_PER_NATURAL
from app.rating.votes.cells import Cells, aggregate
from app.rating.votes.indexed import IndexedVotes
from app.rating.votes.measures import Features
from benchmarks.size import sized

MODELS = sized(200, 20)
SHARES: dict[Role, int] = sized({"honest": 19_000, "random": 600, "flip": 400}, {"honest": 190, "random": 6, "flip": 4})

VOTES = sized(1_000_000, 10_000)
TAIL: dict[Role, int] = sized(
    {"honest": 18_000, "random": 1_000, "flip": 1_000}, {"honest": 180, "random": 10, "flip": 10}
)


def large(millions: int) -> SimulatedVotes:
    """Draw that many million votes on 200 models, 50 from each annotator."""
    roles: dict[Role, int] = {role: millions * share for role, share in SHARES.items()}
    return simulate_votes(0, n_models=MODELS, roles=roles, votes_each=50)


@cache
def million() -> SimulatedVotes:
    return large(1)


def fifth() -> SimulatedVotes:
    """Draw the votes of a fifth of the million's annotators."""
    roles: dict[Role, int] = {role: share // 5 or 1 for role, share in SHARES.items()}
    return simulate_votes(0, n_models=MODELS, roles=roles, votes_each=50)


@cache
def long_tail() -> SimulatedVotes:
    """Draw a million votes on 200 models by 20,000 annotators, 10 % bad: votes per annotator ∝ rank^−0.8."""
    generator = np.random.default_rng(0)
    world, number = make_world(generator, n_models=MODELS, roles=TAIL), sum(TAIL.values())
    share = np.arange(1.0, number + 1.0) ** -0.8
    annotator = generator.permutation(number)[generator.choice(number, VOTES, p=share / share.sum())]
    model_a, model_b = draw_pairs(generator, MODELS, len(annotator))
    outcome = world.vote(annotator, model_a, model_b, generator)
    return SimulatedVotes(world, annotator, model_a, model_b, outcome, {"n_annotators": number, "n_models": MODELS})


def leaning(votes: SimulatedVotes) -> tuple[IndexedVotes, Features]:
    """Draw the outcomes anew, without ties, with four features to which each annotator has leans of its own."""
    generator = np.random.default_rng(5)
    n_annotators, size = votes.sizes["n_annotators"], len(votes.outcome)
    z = np.column_stack([np.ones(size), generator.normal(size=(size, 3))])
    R = votes.world.score / ELO_PER_NATURAL
    leans = np.array([0.2, 0.3, 0.1, 0.0]) + generator.normal(0.0, 0.3, (n_annotators, 4))
    p = expit(R[votes.model_a] - R[votes.model_b] + (z * leans[votes.annotator]).sum(axis=1))
    outcome = (generator.random(size) < p).astype(np.float64)
    return replace(indexed(votes), outcome=outcome), Features(("side", "length", "lists", "bold"), z)


def indexed(votes: SimulatedVotes) -> IndexedVotes:
    """Return the votes with names, as a file has them."""
    names = {size: [str(i) for i in range(votes.sizes[size])] for size in ("n_annotators", "n_models")}
    k, a, b = (column.astype(np.int32) for column in (votes.annotator, votes.model_a, votes.model_b))
    return IndexedVotes(names["n_annotators"], names["n_models"], k, a, b, votes.outcome)


def cells_of(votes: SimulatedVotes) -> Cells:
    n_annotators, n_models = votes.sizes["n_annotators"], votes.sizes["n_models"]
    return aggregate(
        votes.annotator, votes.model_a, votes.model_b, votes.outcome, n_annotators=n_annotators, n_models=n_models
    )


def pairs_of(votes: SimulatedVotes) -> Cells:
    """As if one annotator had cast them all: all that m-ELO needs."""
    one, n_models = np.zeros(len(votes.outcome), dtype=np.int32), votes.sizes["n_models"]
    return aggregate(one, votes.model_a, votes.model_b, votes.outcome, n_annotators=1, n_models=n_models)
