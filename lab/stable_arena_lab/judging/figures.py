"""Tries cases over many seeds, and summarises what was measured."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from app.rating.settings import LoopSettings
from stable_arena_lab.judging.targets import find_target
from stable_arena_lab.parallel import Progress, map_seeds
from stable_arena_lab.spread import mean_or_none, se_or_none

Values = Mapping[tuple[str, str], float]
"""(measure, version) → what was measured; NaN where nothing could be."""
Versions = Mapping[str, LoopSettings]


class Case(Protocol):
    """A simulated arena, and what is measured in it."""

    @property
    def name(self) -> str:
        """What distinguishes the case from others of its row."""

    def try_seed(self, seed: int, versions: Versions) -> Values:
        """Draw the arena of a seed, and measure."""


@dataclass(frozen=True)
class Figure:
    """One measure of one case under one version, over the seeds.

    Attributes
    ----------
    mean, se : and the mean's standard error; None where it is undefined
    seeds : that gave a number
    target : the largest mean that is aimed at; None where there is no target
    """

    row: str
    case: str
    measure: str
    version: str
    mean: float | None
    se: float | None
    seeds: int
    target: float | None


def measure_rows(
    rows: Mapping[str, Sequence[Case]],
    versions: Versions,
    *,
    seeds: Sequence[int],
    processes: int = 1,
    progress: Progress | None = None,
) -> list[Figure]:
    """Try every case of these rows with every seed."""
    cases = [(row, case) for row, of_row in rows.items() for case in of_row]
    work = partial(_try_place, cases=tuple(case for _, case in cases), seeds=tuple(seeds), versions=versions)
    found = map_seeds(work, range(len(cases) * len(seeds)), processes=processes, progress=progress)
    figures = []
    for place, (row, case) in enumerate(cases):
        mine = found[place * len(seeds) : (place + 1) * len(seeds)]
        for measure, version in mine[0]:
            numbers = [values[measure, version] for values in mine]
            figures.append(_summarise(row, case.name, measure, version, numbers))
    return figures


def _try_place(place: int, *, cases: Sequence[Case], seeds: Sequence[int], versions: Versions) -> Values:
    return cases[place // len(seeds)].try_seed(seeds[place % len(seeds)], versions)


def _summarise(row: str, case: str, measure: str, version: str, numbers: Sequence[float]) -> Figure:
    known = sum(not math.isnan(number) for number in numbers)
    target = find_target(row, case, measure, version)
    return Figure(row, case, measure, version, mean_or_none(numbers), se_or_none(numbers), known, target)
