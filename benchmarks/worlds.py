"""The votes that the benchmarks rate: simulated, with fixed seeds."""

from functools import cache

from app.lab.simulate import Role, SimulatedVotes, simulate_votes
from app.rating.data.votes import Cells, aggregate, count_pairs

SHARES: dict[Role, int] = {"honest": 19_000, "random": 600, "flip": 400}


def large(millions: int) -> SimulatedVotes:
    """Draw that many million votes on 200 models, 50 from each annotator."""
    roles: dict[Role, int] = {role: millions * share for role, share in SHARES.items()}
    return simulate_votes(0, n_models=200, roles=roles, votes_each=50)


@cache
def million() -> SimulatedVotes:
    return large(1)


def cells_of(votes: SimulatedVotes) -> Cells:
    n_annotators, n_models = votes.sizes["n_annotators"], votes.sizes["n_models"]
    return aggregate(
        votes.annotator, votes.model_a, votes.model_b, votes.outcome, n_annotators=n_annotators, n_models=n_models
    )


def pairs_of(votes: SimulatedVotes) -> Cells:
    return count_pairs(votes.model_a, votes.model_b, votes.outcome, n_models=votes.sizes["n_models"])
