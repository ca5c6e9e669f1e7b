"""How easily a board gives way: published with it, so that nobody takes a place for surer than it is."""

from app.lab.budget import attack_budget
from app.rating.data.votes import Cells
from app.rating.loop.stable_arena import Turn
from app.rating.robustness.fragility import find_fragility
from app.rating.solver.likelihood import MOST_DENSE
from app.refits.fit.task import Disclosures, FitTask, FragilePair

MOST_LOOKS = 1_000_000_000
"""Pairs of neighbours times cells, each of which is looked at for each: about two seconds, and as long again for the
annotators."""

BUDGET_SECONDS = 5.0
"""What the search for the attackers' budget may take; what it has not found by then it bounds."""


def disclose(cells: Cells, turn: Turn, task: FitTask) -> Disclosures:
    """Find how few votes and annotators decide every two neighbours, and what attackers would need for a place."""
    budget = attack_budget(
        cells, task.settings,
        turn=turn, keep_always=task.keep_always, keep_never=task.keep_never, seconds=BUDGET_SECONDS,
    )  # fmt: skip
    return Disclosures(_fragility(turn), budget)


def _fragility(turn: Turn) -> list[FragilePair] | None:
    models, cells = turn.estimate.small.cells.n_models, len(turn.estimate.small.cells.n)
    if models > MOST_DENSE or models * cells > MOST_LOOKS:
        return None
    found = find_fragility(turn.estimate)
    rows = zip(found.upper.tolist(), found.lower.tolist(), found.gap.tolist(), strict=True)
    removals = zip(found.votes.tolist(), found.annotators.tolist(), strict=True)
    return [
        FragilePair(upper, lower, gap, *(None if number < 0 else number for number in numbers))
        for (upper, lower, gap), numbers in zip(rows, removals, strict=True)
    ]
