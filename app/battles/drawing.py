"""What an annotator has seen, which pair comes next, and with which probability it was drawn."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from cachetools import LRUCache
from sqlalchemy import Connection

from app.battles.queries import ModelIds, read_histories
from app.battles.roster import Roster
from app.policy.schemas import Policy
from app.rating.sampling.pair_weights import PairSampler, Random, uniform_weights

Pair = tuple[int, int]

_MOST_REMEMBERED = 1_000_000
_MOST_PAIRS = 1_000_000  # of all tables that are kept, about 60 bytes each

_Key = tuple[str, ModelIds]


@dataclass(slots=True)
class History:
    """The models of an annotator's last battles, the latest first, and whether the annotator has δ votes or fewer."""

    pairs: list[Pair] = field(default_factory=list)
    new: bool = True

    def add(self, pair: Pair, gap: int) -> None:
        """Add the pair of the next battle, and forget pairs that may come again."""
        self.pairs = [pair, *self.pairs][:gap]


class Histories:
    """Reads histories, and remembers which annotators have more than δ votes: they keep them, so they are not counted.

    Belongs to one thread.
    """

    def __init__(self) -> None:
        self._min_votes = -1
        self._past: set[int] = set()

    def read(self, conn: Connection, annotator_ids: Collection[int], policy: Policy) -> dict[int, History]:
        """Return the histories of annotators on record, by number."""
        if policy.min_votes != self._min_votes or len(self._past) > _MOST_REMEMBERED:
            self._min_votes, self._past = policy.min_votes, set()
        counted = [policy.calibration_share > 0 and number not in self._past for number in annotator_ids]
        rows = read_histories(
            conn, list(annotator_ids), counted, gap=policy.battle_repeat_gap, most_votes=policy.min_votes + 1
        )
        found = {}
        for row in rows:
            if row.votes > policy.min_votes:
                self._past.add(row.annotator_id)
            pairs = list(zip(row.left_ids or (), row.right_ids or (), strict=True))
            found[row.annotator_id] = History(pairs, row.annotator_id not in self._past)
        return found


class DrawnBattle(NamedTuple):
    """Two models in random order, the probability of this pair, sides aside, and what drew it: a policy's name."""

    left_id: int
    right_id: int
    propensity: float
    drawn_by: str


class BattleDraws:
    """Draws battles from the newest snapshot's tables of pairs, before the first snapshot uniformly.

    It keeps what makes draws quick, for each tag and list of candidates. Belongs to one thread.

    `random`: unpredictable, so that an annotator who knows past battles cannot tell the next ones.
    """

    def __init__(self, random: Random) -> None:
        self._random = random
        self._snapshot: object = None
        self._samplers: LRUCache[_Key, PairSampler] = LRUCache(
            _MOST_PAIRS, getsizeof=lambda sampler: min(len(sampler.weights.weight), _MOST_PAIRS)
        )

    def draw(
        self,
        roster: Roster,
        candidates: ModelIds,
        tags: Sequence[str],
        history: History,
        seen: Collection[Pair] = (),
    ) -> DrawnBattle:
        """Draw a battle of two of the candidates for an annotator.

        The table is that of the first tag that has one. Pairs that the annotator has seen, not all of them, are left
        out, and the annotator's last pairs while there are others. A share of the battles of an annotator with δ votes
        or fewer is drawn to learn about the annotator.
        """
        policy = roster.policy.settings
        sampler = self._sampler(roster, next((tag for tag in tags if tag in roster.tables), ""), candidates)
        drawn = sampler.draw(
            self._random,
            avoid=_avoided(candidates, history.pairs, seen) if seen else history.pairs,
            calibration=policy.calibration_share if history.new else 0.0,
        )
        sides = (drawn.model_a, drawn.model_b) if self._random.random() < 1 / 2 else (drawn.model_b, drawn.model_a)
        return DrawnBattle(*sides, drawn.propensity, "calibration" if drawn.calibrating else roster.drawn_by)

    def _sampler(self, roster: Roster, tag: str, candidates: ModelIds) -> PairSampler:
        if roster.snapshot_id != self._snapshot:
            self._samplers.clear()
            self._snapshot = roster.snapshot_id
        sampler = self._samplers.get((tag, candidates))
        if sampler is None:
            models = np.array(candidates, dtype=np.int64)
            table = roster.tables.get(tag)
            sampler = PairSampler(uniform_weights(models) if table is None else table.among(models))
            self._samplers[tag, candidates] = sampler
        return sampler


def _avoided(candidates: ModelIds, last: Collection[Pair], seen: Collection[Pair]) -> Collection[Pair]:
    """Return both the last pairs and those that were seen, if that leaves a pair; else those that were seen."""
    known = set(candidates)
    both = {(min(pair), max(pair)) for pair in (*last, *seen) if known.issuperset(pair)}
    return both if len(both) < len(candidates) * (len(candidates) - 1) // 2 else seen
