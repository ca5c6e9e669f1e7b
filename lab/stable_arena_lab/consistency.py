"""Compares the rankings from random starts: the am-ELO paper's Figure 5."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from app.rating.arrays import Floats
from app.rating.votes.cells import Cells
from stable_arena_lab.agreement import consistency, log_loss
from stable_arena_lab.arenas import Arena
from stable_arena_lab.descent import PAPER_STEPS, VARIANTS, Descent, Variant, descend
from stable_arena_lab.methods import ELO_SHUFFLES, METHODS, Method, Rated, rate
from stable_arena_lab.parallel import Progress, map_seeds

GROUP = 5
"""Starts that are compared with each other, as in the paper."""
PAPER_UNNORMALISED = 0.4
"""Consistency of the paper's one group of unnormalised starts."""


@dataclass(frozen=True)
class Snapshot:
    """All starts of a variant after some steps.

    Attributes
    ----------
    loss : mean over the starts of −ℓ/n_votes
    consistency, lowest, highest : mean, least and greatest over the groups
    """

    variant: Variant
    step: int
    loss: float
    consistency: float
    lowest: float
    highest: float


@dataclass(frozen=True)
class Ending:
    """The groups of starts of a variant after the last step.

    Attributes
    ----------
    consistency, lowest, highest : mean, least and greatest over the groups
    share_of : consistency, rounded to one decimal → share of the groups
    """

    variant: Variant
    groups: int
    loss: float
    consistency: float
    lowest: float
    highest: float
    share_of: dict[str, float]


@dataclass(frozen=True)
class Reference:
    """A method without a random start: Elo over five independent sets of shuffles, or this project's solver.

    Attributes
    ----------
    loss : −ℓ/n_votes; None where the method has no result
    consistency : of five repeats: Elo with other shuffles, the solver with the votes in another order
    """

    method: Method
    loss: float | None
    consistency: float | None


@dataclass(frozen=True)
class Convergence:
    """The results of Figure 5, with the losses and the reference methods."""

    looks: list[Snapshot]
    endings: list[Ending]
    references: list[Reference]


def compare_starts(
    arena: Arena,
    *,
    groups: int,
    seed: int = 0,
    steps: int = PAPER_STEPS,
    shuffles: int = ELO_SHUFFLES,
    processes: int = 1,
    progress: Progress | None = None,
) -> Convergence:
    """Run Algorithm 2 from `groups` × 5 random starts in each variant, and compare the rankings within each group.

    Parameters
    ----------
    shuffles : of Elo, a reference method
    """
    cells = arena.cells()
    work = partial(_descend_all, cells, steps)
    starts = map_seeds(work, range(seed, seed + groups * GROUP), processes=processes, progress=progress)
    looks, endings = [], []
    for place, variant in enumerate(VARIANTS):
        runs = [start[place] for start in starts]
        table = _by_group(runs)
        loss = np.mean([run.loss for run in runs], axis=0)
        looks += [
            Snapshot(variant, int(step), float(loss[i]), float(row.mean()), float(row.min()), float(row.max()))
            for i, (step, row) in enumerate(zip(runs[0].steps, table, strict=True))
        ]
        last, counts = looks[-1], Counter(f"{value:.1f}" for value in table[-1])
        share_of = {value: count / groups for value, count in sorted(counts.items())}
        endings.append(Ending(variant, groups, last.loss, last.consistency, last.lowest, last.highest, share_of))
    return Convergence(looks, endings, [_reference(arena, method, seed, shuffles) for method in METHODS])


def _descend_all(cells: Cells, steps: int, seed: int) -> list[Descent]:
    return [descend(cells, variant, seed=seed, steps=steps) for variant in VARIANTS]


def _by_group(runs: Sequence[Descent]) -> Floats:
    """Return the consistency of each group at each snapshot, shape (n_snapshots, n_groups)."""
    groups = [runs[first : first + GROUP] for first in range(0, len(runs), GROUP)]
    return np.array(
        [[consistency([run.scores[i] for run in group]) for group in groups] for i in range(len(runs[0].steps))]
    )


def _reference(arena: Arena, method: Method, seed: int, shuffles: int) -> Reference:
    """Rate five times: Elo with five seeds, the others with the votes in five orders."""
    rated: list[Rated] = []
    for number in range(GROUP):
        order = np.random.default_rng([seed, number]).permutation(arena.n_votes)
        answer = rate(arena.take(order), method, seed=seed + number, shuffles=shuffles)
        if answer is None:
            return Reference(method, None, None)
        rated.append(answer)
    loss = log_loss(rated[0].predict(arena), arena.outcome)
    return Reference(method, loss, consistency([each.score for each in rated]))
