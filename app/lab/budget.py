"""What it costs to lift a model by one rank: attackers added to real votes until the board gives way."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, get_args

import numpy as np

from app.lab.attacks.joining import Attack, join, share_of_ties, votes_of_attackers
from app.lab.few_attackers import FewAttackers
from app.lab.simulate import NATURAL_PER_ELO
from app.rating.data.arrays import Mask
from app.rating.data.votes import Cells
from app.rating.errors import RatingError
from app.rating.inference.influence import Influence, find_influence
from app.rating.loop.results import LoopResult
from app.rating.loop.round import run_round
from app.rating.settings import LoopSettings
from app.rating.solver.warm_start import Start

Defence = Literal["m-elo", "none", "threshold", "probability", "evidence"]
DEFENCES: tuple[Defence, ...] = get_args(Defence)
MOST = 64
SECONDS = 10.0
PLACES = 5
NEED_MORE = ("side", "copy")  # tests that need more than cells
STEP = 8  # the first step from a guess is an eighth of it


@dataclass(frozen=True)
class Place:
    """The least that lifts one model by a rank.

    Attributes
    ----------
    model : index as in the votes
    rank : before the attack, within the component
    annotators, votes : of attackers that were enough; None where no number was found that is
    at_least : one more than the largest number that was not enough; the same as `annotators` where the search was
        finished
    most : attackers tried at most

    Enough and not enough are what trials showed: of one draw of the attackers' votes, each begun from the fit without
    them. The same votes fitted from elsewhere may end at another maximum, and smaller numbers than the largest that was
    not enough were not all tried.
    """

    model: int
    rank: int
    annotators: int | None
    votes: int | None
    at_least: int
    most: int

    @property
    def complete(self) -> bool:
        """Whether the search is finished: one attacker fewer was not enough, or not even `most` were."""
        return self.at_least == self.annotators or self.at_least > self.most


@dataclass(frozen=True)
class AttackBudget:
    """What attackers need for a place on the board under the policy in force.

    Attributes
    ----------
    strategy, votes_each : of every attacker
    places : the best first
    complete : whether every place's search was finished in time
    seconds : that it took
    """

    strategy: str
    votes_each: int
    places: list[Place]
    complete: bool
    seconds: float


def attack_budget(
    cells: Cells,
    settings: LoopSettings,
    *,
    turn: LoopResult | None = None,
    keep_always: Mask | None = None,
    keep_never: Mask | None = None,
    attack: Attack | None = None,
    places: int = PLACES,
    most: int = MOST,
    seconds: float = SECONDS,
    seed: int = 0,
) -> AttackBudget:
    """Find what each of the first places takes: attackers who lift the model below it by a rank, or hold the first.

    Parameters
    ----------
    cells : every vote on record
    settings : in force: whom the rule excludes is excluded, attackers too; whom it only flags stays in
    turn : of the loop with these votes and settings, if there is one already
    keep_always, keep_never : as for `run_round`
    attack : default target-only with one vote more than δ each, at least 51, on battles as they come
    places : models from the second on the largest component's board that are tried
    most : attackers tried at most
    seconds : no trial begins that would end later, if it took as long as the longest fit so far (the first: the turn)

    Notes
    -----
    A trial is one turn of the loop, from the fit at hand; where the attackers are few beside the crowd and the answer
    is beyond doubt without it, a step from that fit (`FewAttackers`). The first is at the number at which the
    attackers' influences add up to the distance; from there the bracket is stepped out and halved: three or four trials
    a place, each at most the cost of a refit from a warm start. Places are taken in turn, the cheapest questions first,
    so that what time allows is spread. Tests that need more than cells do not speak. What was found holds for trials
    that begin from the fit at hand (`Place`): a refit, which begins from nowhere, may find another maximum of the same
    votes, and then need more attackers or fewer.
    """
    began = time.perf_counter()
    attack = attack or Attack(votes_each=max(51, settings.min_votes + 1))
    trials = _Trials(cells, settings, attack, most, seed, turn, keep_always, keep_never)
    board = trials.turn.rating.models
    first = np.flatnonzero(board.identified & (board.component == 0) & (board.rank > 1))
    targets = first[np.argsort(board.rank[first], kind="stable")][:places].tolist()
    searches = [_Search(trials.lifts(model), trials.guess(model), most) for model in targets]
    for search in sorted(searches, key=lambda search: search.next):
        while not search.finished and time.perf_counter() - began + trials.seconds() <= seconds:
            search.step()
    found = [trials.place(model, search) for model, search in zip(targets, searches, strict=True)]
    complete = all(place.complete for place in found)
    return AttackBudget(attack.strategy, attack.votes_each, found, complete, time.perf_counter() - began)


def find_budget(
    cells: Cells, settings: LoopSettings, model: int, attack: Attack, defence: Defence, *, most: int, seed: int = 0
) -> Place:
    """Find how few attackers lift a model by a rank or more on the board that the defence leaves.

    Parameters
    ----------
    cells : the votes on record
    settings : of the board
    model : the target, a model with a score that is not the first
    defence : "m-elo" (Bradley-Terry, nobody left out), "none" (the settings' own board, nobody left out), or a flag
        rule by which annotators are left out; "probability" needs settings with an interval
    most : attackers to try at most

    Notes
    -----
    As `attack_budget`, without a limit of time. The same seed gives an attacker the same votes whatever their number.
    More attackers are taken to do at least as much as fewer.

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
    board = trials.turn.rating.models
    if not board.identified[model] or board.rank[model] == 1:
        raise ValueError(f"model {model} has no score, or is the first already")
    search = _Search(trials.lifts(model), trials.guess(model), most)
    while not search.finished:
        search.step()
    return trials.place(model, search)


class _Search:
    """The smallest number, at most `most`, for which `enough` holds, sought from a guess.

    Attributes
    ----------
    too_few, found : the largest number known not to be enough, the smallest known to be (None as long as none is)
    next : the number to be tried next
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
        """Try one number, and choose the next: away from the guess in doubling steps, then by halves."""
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
    """Boards with attackers added, each begun from the fit without them."""

    def __init__(
        self, cells: Cells, settings: LoopSettings, attack: Attack, most: int, seed: int,
        turn: LoopResult | None = None, keep_always: Mask | None = None, keep_never: Mask | None = None,
    ) -> None:  # fmt: skip
        nobody = np.zeros(cells.n_annotators, dtype=bool)
        self.settings = settings
        if not settings.exclude:  # whom the rule only flags stays in: whom it would be does not matter here
            self.settings = replace(self.settings, flag_rule="threshold")
        if self.settings.flag_rule != "probability":  # which takes standard errors
            self.settings = replace(self.settings, interval="none")
        self.keep = [nobody if mask is None else mask for mask in (keep_always, keep_never)]
        self.turn = turn or run_round(cells, self.settings, keep_always=self.keep[0], keep_never=self.keep[1])
        crowd = self.turn.rating.annotators
        if self.settings.exclude:  # what the trials' cells cannot tell, the turn has told
            self.keep[1] = self.keep[1] | ((crowd.standing == "excluded") & np.isin(crowd.rule, NEED_MORE))
        self.cells, self.attack, self.most, self.seed = cells, attack, most, seed
        board = self.turn.rating.models
        known = board.identified & (board.component == 0)
        lowest = board.score[known].min() if known.any() else settings.base
        self.public = np.where(known, board.score, lowest)
        self.tie_share = share_of_ties(cells, self.public)
        self.longest = 0.0
        self.few = None
        if attack.votes_each > settings.min_votes:
            self.few = FewAttackers.of(self.turn.estimate, self.settings)

    @cached_property
    def influence(self) -> Influence:
        """The information at the fit without attackers."""
        return find_influence(self.turn.estimate)

    def seconds(self) -> float:
        """Return about how long a fit takes: the longest so far; at first the turn, without what trials do not ask."""
        if self.longest > 0.0:
            return self.longest
        taken = self.turn.rating.diagnostics.seconds
        return sum(taken.values()) - (taken.get("evidence", 0.0) if self.settings.flag_rule != "evidence" else 0.0)

    def attackers(self, model: int, number: int) -> Cells:
        """Return the votes of so many, annotators from 0 on."""
        return votes_of_attackers(
            self.public, model, self.attack, number=number, tie_share=self.tie_share, seed=self.seed
        )

    def lifts(self, model: int) -> Callable[[int], bool]:
        """Return what says whether a number of attackers lifts the model."""
        rank = int(self.turn.rating.models.rank[model])

        def lifted(number: int) -> bool:
            attackers = self.attackers(model, number)
            foreseen = None if self.few is None else self.few.lift(model, attackers)
            if foreseen is not None:
                return foreseen
            joined = join(self.cells, attackers)
            always, never = (np.append(mask, np.zeros(number, dtype=bool)) for mask in self.keep)
            optimum = self.turn.rating.optimum
            start = Start(optimum.score, np.append(optimum.ability, np.full(number, np.nan)), optimum.median_ability)
            began = time.perf_counter()
            try:
                after = run_round(
                    joined, self.settings, keep_always=always, keep_never=never, start=start
                ).rating.models
            except RatingError:
                return False
            finally:
                self.longest = max(self.longest, time.perf_counter() - began)
            return bool(after.identified[model] and after.rank[model] < rank)

        return lifted

    def guess(self, model: int) -> int:
        """How many attackers it takes if their influences, from the fit at hand, add up; at most `most`.

        Each vote moves the distance to the next model by (W − p) (y_a − y_b), H y the contrast of the two.
        """
        board, models = self.turn.rating.models, self.turn.estimate.small.models
        places = board.rank == board.rank[model] - 1
        above = np.flatnonzero(places & (board.component == board.component[model]) & board.identified)
        if len(above) == 0:
            return 1
        contrast = np.zeros(len(models))
        contrast[np.searchsorted(models, [model, above[0]])] = 1.0, -1.0
        y = np.zeros(len(board.score))
        try:
            y[models] = self.influence.observed.solve(contrast)
        except RatingError:  # a saddle: no small change can be told from it
            return 1
        new = self.attackers(model, self.most)
        gap = NATURAL_PER_ELO * (self.public[above[0]] - self.public[model])
        d = NATURAL_PER_ELO * (self.public[new.model_a] - self.public[new.model_b])
        moved = (new.s - new.n / (1.0 + np.exp(-d))) * (y[new.model_a] - y[new.model_b])
        total = np.cumsum(np.bincount(new.annotator, moved, self.most))
        return 1 + int(np.argmax(total > gap)) if (total > gap).any() else self.most

    def place(self, model: int, search: _Search) -> Place:
        """Return what a search has found so far."""
        found = search.found
        votes = None if found is None else found * self.attack.votes_each
        rank = int(self.turn.rating.models.rank[model])
        return Place(model, rank, found, votes, search.too_few + 1, self.most)
