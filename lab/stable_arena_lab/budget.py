"""The attack budget: how many attackers, added to the votes, lift a model by one rank."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from app.rating.errors import RatingError
from app.rating.settings import LoopSettings
from app.rating.uncertainty.influence import find_influence
from app.rating.units import NATURAL_PER_ELO
from app.rating.verdict.round import run_round
from app.rating.votes.cells import Cells
from stable_arena_lab.attacks.joining import Attack, join, votes_of_attackers
from stable_arena_lab.battles.pooled_arena import share_of_ties

Defence = Literal["m-elo", "none", "threshold", "evidence"]
DEFENCES: tuple[Defence, ...] = get_args(Defence)
STEP = 8  # the first step from the guess is an eighth of it
NEARLY_SURE = 1.5  # times the median, which lifts in nearly every draw of the attackers' votes


@dataclass(frozen=True)
class Budget:
    """About how many attackers lift one model by a rank.

    Attributes
    ----------
    model : index as in the votes
    rank : before the attack, within the component
    median_attackers, median_votes : the fewest in one draw of the attackers' votes; as many lift the model in about
        half of all draws. None where not even `most` attackers are enough
    at_least : one more than the largest number of attackers that was not enough in this draw
    most : largest number of attackers tried
    lifted : share of new draws in which half, all, and 1.5 times the median lift the model; empty where none was made

    Each trial is fitted from the leaderboard without attackers. A fit from another start may end at another maximum,
    and not every smaller number was tried.
    """

    model: int
    rank: int
    median_attackers: int | None
    median_votes: int | None
    at_least: int
    most: int
    lifted: tuple[float, ...] = ()

    @property
    def nearly_sure_attackers(self) -> int | None:
        """1.5 times the median: enough in nearly every draw."""
        return None if self.median_attackers is None else math.ceil(NEARLY_SURE * self.median_attackers)

    @property
    def nearly_sure_votes(self) -> int | None:
        """The votes of as many attackers."""
        if self.median_attackers is None or self.median_votes is None or self.nearly_sure_attackers is None:
            return None
        return self.nearly_sure_attackers * (self.median_votes // self.median_attackers)


def find_budget(
    cells: Cells,
    settings: LoopSettings,
    model: int,
    attack: Attack,
    defence: Defence,
    *,
    most: int,
    seed: int = 0,
    draws: int = 0,
) -> Budget:
    """Find how few attackers lift a model by a rank or more, against one defence.

    Parameters
    ----------
    cells : the votes on record
    settings : of the leaderboard
    model : the target: an identified model that is not the first
    defence : "m-elo" (Bradley-Terry, no annotator excluded), "none" (the method of `settings`, no annotator excluded),
        or the flag rule by which annotators are excluded
    most : largest number of attackers to try
    draws : new draws of the attackers' votes, in which half, all, and 1.5 times the number found are tried

    Notes
    -----
    The first trial has as many attackers as their influences, added up, need to close the gap to the next model. From
    there the search doubles its steps, then bisects: three or four trials, each a round of the loop from a warm start.
    An attacker's votes depend on the seed alone, not on the number of attackers. More attackers are assumed to do at
    least as much as fewer. Tests that need more than cells are not made.

    Raises
    ------
    ValueError
        The model has no score, or is the first already.
    """
    if defence == "m-elo":
        policy = replace(settings, method="m-elo", flag_rule="threshold", exclude=False)
    elif defence == "none":
        policy = replace(settings, flag_rule="threshold", exclude=False)
    else:
        policy = replace(settings, flag_rule=defence, exclude=True)
    trials = _Trials(cells, policy, attack, most, seed)
    if not trials.before.identified[model] or trials.before.rank[model] == 1:
        raise ValueError(f"model {model} has no score, or is the first already")
    search = _Search(trials.lifts(model), trials.guess(model), most)
    while not search.finished:
        search.step()
    votes = None if search.found is None else search.found * attack.votes_each
    found = Budget(model, int(trials.before.rank[model]), search.found, votes, search.too_few + 1, most)
    if search.found is None or draws == 0:
        return found
    sizes = (search.found // 2, search.found, math.ceil(NEARLY_SURE * search.found))
    seeds = range(seed + 1, seed + 1 + draws)
    lifted = [[size > 0 and trials.lifts(model, other)(size) for other in seeds] for size in sizes]
    return replace(found, lifted=tuple(float(np.mean(row)) for row in lifted))


class _Search:
    """Searches the smallest number, at most `most`, for which `enough` holds.

    Attributes
    ----------
    too_few, found : the largest number known not to be enough, the smallest known to be enough (None for none)
    next : the next number to try
    """

    def __init__(self, enough: Callable[[int], bool], guess: int, most: int) -> None:
        self._enough, self._most = enough, most
        self._step = max(1, guess // STEP)
        self.too_few, self.next = 0, min(max(1, guess), most)
        self.found: int | None = None

    @property
    def finished(self) -> bool:
        """Whether the number is known, or known not to exist."""
        return self.too_few == self._most or self.found == self.too_few + 1

    def step(self) -> None:
        """Try one number and choose the next: away from the guess in doubling steps, then by bisection."""
        if self._enough(self.next):
            self.found = self.next
        else:
            self.too_few = self.next
        if self.found is None:
            self.next = min(self.too_few + self._step, self._most)
        elif self.too_few == 0 and self.found > self._step:
            self.next = self.found - self._step
        else:
            self.next = (self.too_few + self.found) // 2
        self._step *= 2


class _Trials:
    """Leaderboards with attackers added, each fitted from the leaderboard without them."""

    def __init__(self, cells: Cells, settings: LoopSettings, attack: Attack, most: int, seed: int) -> None:
        self._settings = replace(settings, interval="none")
        self._cells, self._attack, self._most, self._seed = cells, attack, most, seed
        self._round = run_round(cells, self._settings)
        self.before = self._round.models
        known = self.before.identified & (self.before.component == 0)
        lowest = self.before.score[known].min() if known.any() else settings.base
        self._public = np.where(known, self.before.score, lowest)
        self._tie_share = share_of_ties(cells, self._public)

    def lifts(self, model: int, seed: int | None = None) -> Callable[[int], bool]:
        """Return the function that says whether a number of attackers lifts the model, in this draw of their votes."""

        def lifted(number: int) -> bool:
            votes, start = join(self._cells, self._attackers(model, number, seed)), self._round.optimum
            try:
                after = run_round(votes, self._settings, start=start)
            except RatingError:
                return False
            models = after.models
            return bool(models.identified[model] and models.rank[model] < self.before.rank[model])

        return lifted

    def guess(self, model: int) -> int:
        """Return how many attackers have enough influence together, by one Newton step; at most `most`.

        Each vote changes the difference to the next model by (W − p) (y_a − y_b), H y the contrast of the two models.
        """
        board, models = self.before, self._round.small.models
        next_better = (board.rank == board.rank[model] - 1) & (board.component == board.component[model])
        above = np.flatnonzero(next_better & board.identified)
        if len(above) == 0:
            return 1
        contrast = np.zeros(len(models))
        contrast[np.searchsorted(models, [model, above[0]])] = 1.0, -1.0
        y = np.zeros(len(board.score))
        try:
            y[models] = find_influence(self._round).solve(contrast)
        except RatingError:  # a saddle point
            return 1
        new = self._attackers(model, self._most)
        gap = NATURAL_PER_ELO * (self._public[above[0]] - self._public[model])
        d = NATURAL_PER_ELO * (self._public[new.model_a] - self._public[new.model_b])
        moved = (new.s - new.n / (1.0 + np.exp(-d))) * (y[new.model_a] - y[new.model_b])
        total = np.cumsum(np.bincount(new.annotator, moved, self._most))
        return 1 + int(np.argmax(total > gap)) if (total > gap).any() else self._most

    def _attackers(self, model: int, number: int, seed: int | None = None) -> Cells:
        """Return the votes of this number of attackers, numbered from 0."""
        drawn = self._seed if seed is None else seed
        return votes_of_attackers(
            self._public, model, self._attack, number=number, tie_share=self._tie_share, seed=drawn
        )
