"""Cases about annotators: attackers and what they gain, honest annotators who are wronged, judges who are framed."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from app.rating.arrays import Mask
from stable_arena_lab.attacks.arena import Setup, Votes
from stable_arena_lab.attacks.tuned import Tuning
from stable_arena_lab.defences.gains import Contest, rate
from stable_arena_lab.defences.habits import MODELS, Crowd, draw
from stable_arena_lab.defences.niche import Niche, draw_niche
from stable_arena_lab.judging.figures import Values, Versions
from stable_arena_lab.judging.targets import BEYOND, GAINED, LEANERS, UNSURE, WRONGED
from stable_arena_lab.judging.versions import BRADLEY_TERRY, mark

FOUND = "attackers found, %"
WIDE = 0.3  # standard error of an ability from which it hardly tells a coin from a typical annotator


@dataclass(frozen=True)
class AttackCase:
    """Attackers who push a model: the ranks that it gains, and the attackers who are found."""

    name: str
    attack: str | Tuning
    setup: Setup

    def try_seed(self, seed: int, versions: Versions) -> Values:
        """Compare every leaderboard with that of the honest votes alone."""
        outcomes = Contest(seed, self.setup, versions, mark=mark).attack(self.attack)
        values = {(GAINED, version): outcome.ranks for version, outcome in outcomes.items()}
        plain = outcomes.pop(BRADLEY_TERRY).ranks
        values |= {(BEYOND, version): outcome.ranks - plain for version, outcome in outcomes.items()}
        return values | {(FOUND, version): 100.0 * outcome.found for version, outcome in outcomes.items()}


@dataclass(frozen=True)
class CrowdCase:
    """Honest annotators with habits, and perhaps bad ones among them: how many of each are marked."""

    name: str
    crowd: Crowd

    def try_seed(self, seed: int, versions: Versions) -> Values:
        """Judge a crowd by every version."""
        annotator, left, right, outcome, bad = draw(seed, self.crowd)
        people = self.crowd.annotators
        votes = Votes(annotator, left, right, outcome, np.arange(len(annotator)), people, MODELS)
        return _count(votes, versions, {FOUND: bad, WRONGED: ~bad, LEANERS: self.crowd.leaners})


@dataclass(frozen=True)
class NicheCase:
    """Attackers who outvote the few honest judges of five models."""

    name: str
    niche: Niche

    def try_seed(self, seed: int, versions: Versions) -> Values:
        """Count the judges and the attackers that every version marks."""
        niche = self.niche
        kind = np.repeat([0, 1, 2], [niche.crowd, niche.judges, niche.framers])
        return _count(draw_niche(seed, niche), versions, {FOUND: kind == 2, WRONGED: kind == 1})  # noqa: PLR2004  2 marks attackers


@dataclass(frozen=True)
class UnsureCase:
    """Honest annotators marked by their ability alone, although its standard error is large."""

    name: str
    crowd: Crowd

    def try_seed(self, seed: int, versions: Versions) -> Values:
        """Count them in a crowd without bad annotators."""
        annotator, left, right, outcome, _ = draw(seed, self.crowd)
        votes = Votes(annotator, left, right, outcome, np.arange(len(annotator)), self.crowd.annotators, MODELS)
        values = {}
        for version, settings in versions.items():
            if version == BRADLEY_TERRY:
                continue
            rating = rate(votes, replace(settings, interval="clustered"))
            if rating is None or rating.evidence is None:
                values[UNSURE, version] = float("nan")
                continue
            known = np.where(np.isnan(rating.annotators.se), rating.annotators.shadow_se, rating.annotators.se)
            marked = mark(version, rating) & ~rating.evidence.flagged() & (known >= WIDE)
            values[UNSURE, version] = 100.0 * float(marked.mean())
        return values


def _count(votes: Votes, versions: Versions, groups: Mapping[str, Mask]) -> Values:
    """Return the shares of groups of annotators, by measure, that each version marks, in per cent."""
    values = {}
    for version, settings in versions.items():
        if version == BRADLEY_TERRY:
            continue
        rating = rate(votes, settings)
        for measure, group in groups.items():
            if group.any():
                marked = None if rating is None else mark(version, rating)[group]
                values[measure, version] = float("nan") if marked is None else 100.0 * float(marked.mean())
    return values
