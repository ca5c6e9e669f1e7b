"""Runs the attacks for many seeds and summarises them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from stable_arena_lab.attacks.arena import Setup
from stable_arena_lab.attacks.strategies import STRATEGIES
from stable_arena_lab.defences.trial import NO_ATTACK, Trial, try_seed
from stable_arena_lab.parallel import Progress, map_seeds
from stable_arena_lab.spread import mean_or_none, sd_or_none


@dataclass(frozen=True)
class BoardRow:
    """One leaderboard under one attack, over the seeds.

    Attributes
    ----------
    ranks, ranks_median, ranks_sd : gained by the target
    points, points_sd : Elo points gained by the target
    failed : seeds in which the fit failed
    """

    strategy: str
    board: str
    ranks: float | None
    ranks_median: float | None
    ranks_sd: float | None
    points: float | None
    points_sd: float | None
    failed: int


@dataclass(frozen=True)
class RuleRow:
    """One rule under one attack, over the seeds: shares of attackers found, and of honest annotators flagged."""

    strategy: str
    rule: str
    found: float | None
    found_sd: float | None
    wronged: float | None
    wronged_sd: float | None


def campaign(
    setup: Setup,
    *,
    seeds: Sequence[int],
    strategies: Sequence[str] = (NO_ATTACK, *STRATEGIES),
    boards: bool = True,
    rules: Sequence[str] | None = None,
    processes: int = 1,
    progress: Progress | None = None,
) -> tuple[list[BoardRow], list[RuleRow]]:
    """Try every strategy with every seed, and summarise by leaderboard and by rule."""
    work = partial(try_seed, setup=setup, strategies=tuple(strategies), boards=boards, rules=rules)
    trials = map_seeds(work, seeds, processes=processes, progress=progress)
    return _board_rows(trials), _rule_rows(trials)


def _board_rows(trials: Iterable[Trial]) -> list[BoardRow]:
    groups: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for effect in (effect for trial in trials for effect in trial.effects):
        groups.setdefault((effect.strategy, effect.board), []).append((effect.ranks, effect.points))
    rows = []
    for (strategy, board), pairs in groups.items():
        ranks, points = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        known = [rank for rank in ranks if not np.isnan(rank)]
        rows.append(
            BoardRow(
                strategy, board, mean_or_none(ranks), float(np.median(known)) if known else None, sd_or_none(ranks),
                mean_or_none(points), sd_or_none(points), len(ranks) - len(known),
            )
        )  # fmt: skip
    return rows


def _rule_rows(trials: Iterable[Trial]) -> list[RuleRow]:
    groups: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for finding in (finding for trial in trials for finding in trial.findings):
        groups.setdefault((finding.strategy, finding.rule), []).append((finding.found, finding.wronged))
    rows = []
    for (strategy, rule), pairs in groups.items():
        found, wronged = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        rows.append(
            RuleRow(strategy, rule, mean_or_none(found), sd_or_none(found), mean_or_none(wronged), sd_or_none(wronged))
        )
    return rows
