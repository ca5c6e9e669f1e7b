"""Cases about fits: the attack budget in new draws, and refits that fail."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from stable_arena_lab.attacks.arena import Setup, draw_crowd
from stable_arena_lab.attacks.joining import Attack
from stable_arena_lab.attacks.strategies import STRATEGIES
from stable_arena_lab.attacks.tuned import TUNED, Tuning
from stable_arena_lab.budget import Defence, find_budget
from stable_arena_lab.defences.gains import Contest, rate
from stable_arena_lab.judging.figures import Values, Versions
from stable_arena_lab.judging.versions import BEFORE, BRADLEY_TERRY, EXCLUDED, NOW

ATTACKERS = "attackers N, median"
LIFTED = ("half of N lifts, %", "N lifts, %", "1.5 N lifts, %")
FAILED = "refits that failed, %"
MOST, DRAWS = 64, 6


@dataclass(frozen=True)
class BudgetCase:
    """The number of attackers that lifts a model, tried in new draws of their votes."""

    name: str
    setup: Setup

    defences: ClassVar[dict[str, Defence]] = {
        BRADLEY_TERRY: "m-elo", BEFORE: "threshold", NOW: "none", EXCLUDED: "evidence",
    }  # fmt: skip

    def try_seed(self, seed: int, versions: Versions) -> Values:
        """Find the number in one draw, and try half, all and 1.5 times of it in others."""
        crowd = draw_crowd(np.random.default_rng(seed), self.setup, 0)
        values = {}
        for version, settings in versions.items():
            found = find_budget(
                crowd.votes.cells(), settings, crowd.target, Attack(), self.defences[version],
                most=MOST, seed=DRAWS * seed, draws=DRAWS,
            )  # fmt: skip
            attackers = float("nan") if found.median_attackers is None else float(found.median_attackers)
            values[ATTACKERS, version] = attackers
            shares = found.lifted or (float("nan"),) * len(LIFTED)
            values |= {(measure, version): 100.0 * share for measure, share in zip(LIFTED, shares, strict=True)}
        return values


@dataclass(frozen=True)
class RefitCase:
    """Refits of arenas under every attack: how many fail."""

    name: str
    setup: Setup

    def try_seed(self, seed: int, versions: Versions) -> Values:
        """Fit by the paper's rule, which needs no evidence."""
        contest = Contest(seed, self.setup, {})
        attacks: list[str | Tuning] = [*STRATEGIES, *TUNED.values()]
        arenas = [contest.draw(attack) for attack in attacks]
        return {
            (FAILED, version): 100.0
            * float(np.mean([rate(each.votes, replace(settings, flag_rule="threshold")) is None for each in arenas]))
            for version, settings in versions.items()
        }
