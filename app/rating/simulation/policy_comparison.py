"""Many arenas under every policy, and what each saves against uniform pairs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from app.rating.arrays import Floats
from app.rating.simulation.parallel import Progress, map_seeds
from app.rating.simulation.pooled_arena import PooledArena
from app.rating.simulation.votes_needed import COMPARED, VotesNeeded, count_votes

BASELINE = "uniform"


@dataclass(frozen=True)
class PolicyRow:
    """One policy over the arenas: medians, and quartiles of the ratios to uniform pairs in the same arena.

    Attributes
    ----------
    ranking, top : votes until the ranking is right, and until the first models are decided (`VotesNeeded`)
    ranking_ratio, top_ratio : median of the votes relative to uniform's
    ranking_low, ranking_high, top_low, top_high : its quartiles
    wrong : share of the arenas in which others than the true first models were decided
    """

    policy: str
    models: int
    arenas: int
    ranking: float
    ranking_ratio: float
    ranking_low: float
    ranking_high: float
    top: float
    top_ratio: float
    top_low: float
    top_high: float
    wrong: float


def compare_policies(
    arena: Callable[[int], PooledArena],
    *,
    seeds: Sequence[int],
    policies: Sequence[str] = tuple(COMPARED),
    k: int = 3,
    floor: float = 0.1,
    processes: int = 1,
    progress: Progress | None = None,
) -> list[PolicyRow]:
    """Run the arena of each seed under every policy, uniform pairs always among them.

    Parameters
    ----------
    arena : returns the arena of a seed; other processes can call it
    """
    names = tuple(dict.fromkeys((BASELINE, *policies)))
    work = partial(_run, arena=arena, policies=names, k=k, floor=floor)
    return summarise([row for rows in map_seeds(work, seeds, processes=processes, progress=progress) for row in rows])


def summarise(found: Sequence[VotesNeeded]) -> list[PolicyRow]:
    """Return one row a policy, in the order in which they come; all of the same seeds."""
    votes = {
        name: np.array([(row.ranking, row.top, row.wrong) for row in found if row.policy == name]).T
        for name in dict.fromkeys(row.policy for row in found)
    }
    rows = []
    for name, (ranking, top, wrong) in votes.items():
        r, t = (_quartiles(own / base) for own, base in zip((ranking, top), votes[BASELINE][:2], strict=True))
        rows.append(
            PolicyRow(
                name, found[0].models, len(ranking), float(np.median(ranking)), r[1], r[0], r[2],
                float(np.median(top)), t[1], t[0], t[2], float(wrong.mean()),
            )
        )  # fmt: skip
    return rows


def _run(
    seed: int, *, arena: Callable[[int], PooledArena], policies: Sequence[str], k: int, floor: float
) -> list[VotesNeeded]:
    made = arena(seed)
    return [count_votes(made, policy, seed=seed, k=k, floor=floor) for policy in policies]


def _quartiles(ratio: Floats) -> tuple[float, float, float]:
    low, median, high = np.quantile(ratio, (0.25, 0.5, 0.75)).tolist()
    return low, median, high
