"""What attackers gain who choose their battles, and attackers whose battles the service draws."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np

from app.rating.arrays import Floats, Indices
from app.rating.sampling.pair_weights import PairWeights
from app.rating.settings import PairPolicy, SamplingSettings
from app.rating.verdict.round import run_round
from stable_arena_lab.attacks.arena import Setup, Votes
from stable_arena_lab.attacks.honest import draw_honest
from stable_arena_lab.attacks.strategies import RIVALS, STRATEGIES, Scene
from stable_arena_lab.battles.pooled_arena import PUBLIC
from stable_arena_lab.battles.rounds import draw_battles, tabulate, vote_in_rounds
from stable_arena_lab.defences.gains import BOARDS
from stable_arena_lab.defences.trial import find_place
from stable_arena_lab.parallel import Progress, map_seeds
from stable_arena_lab.spread import mean_or_none, sd_or_none

Choice = Literal["chosen", "uniform", "top_k", "mixed"]
CHOICES: tuple[Choice, ...] = ("chosen", "uniform", "mixed", "top_k")
ATTACKS = ("target-only", "omnipresent")
ROUNDS = 3


@dataclass(frozen=True)
class Gain:
    """Gained by the target on one leaderboard, over the arenas.

    Attributes
    ----------
    choice : "chosen": attackers choose their battles, honest annotators have uniform pairs; else the service draws all
        battles by this policy
    target : place of the target, counted from the last
    shown : share of the attackers' battles that show the target
    ranks, points : means
    """

    attack: str
    target: int
    choice: Choice
    board: str
    shown: float | None
    ranks: float | None
    ranks_sd: float | None
    points: float | None


@dataclass(frozen=True)
class _One:
    board: str
    shown: float
    ranks: float
    points: float


def measure_gains(
    setup: Setup,
    *,
    seeds: Sequence[int],
    targets: Sequence[int],
    attacks: Sequence[str] = ATTACKS,
    processes: int = 1,
    progress: Progress | None = None,
) -> list[Gain]:
    """Attack every arena in every way, with every choice of battles.

    Attackers recognise the models, so that a seal keeps them from choosing battles and from nothing else.
    """
    work = partial(_try, setup=setup, targets=tuple(targets), attacks=tuple(attacks))
    trials = map_seeds(work, seeds, processes=processes, progress=progress)
    rows = []
    for attack, target, choice in trials[0]:
        for place, board in enumerate(BOARDS):
            found = [trial[attack, target, choice][place] for trial in trials]
            ranks = [one.ranks for one in found]
            shown, points = mean_or_none(one.shown for one in found), mean_or_none(one.points for one in found)
            rows.append(Gain(attack, target, choice, board, shown, mean_or_none(ranks), sd_or_none(ranks), points))
    return rows


def _try(
    seed: int, *, setup: Setup, targets: Sequence[int], attacks: Sequence[str]
) -> dict[tuple[str, int, Choice], list[_One]]:
    found = {}
    for choice in CHOICES:
        generator = np.random.default_rng(seed)
        score = 1000.0 + setup.score_sd * generator.standard_normal(setup.n_models)
        people = draw_honest(
            generator, score, setup.n_annotators, ability_sd=setup.ability_sd, tie_share=setup.tie_share,
            variety=setup.variety,
        )  # fmt: skip
        policy: PairPolicy = "uniform" if choice == "chosen" else choice
        sampling = SamplingSettings(policy)
        number = max(1, round(setup.share * setup.n_annotators))
        honest = vote_in_rounds(
            partial(people.vote, generator=generator), sampling, generator,
            n_annotators=setup.n_annotators - number, n_models=setup.n_models, votes_each=setup.votes_each,
            rounds=ROUNDS,
        )  # fmt: skip
        honest = replace(honest, n_annotators=setup.n_annotators)
        board = run_round(honest.cells(), PUBLIC).models
        public = np.where(board.identified, board.score, board.score[board.identified].min())
        table, before = tabulate(honest.cells(), sampling), {}
        for target_place in targets:
            target = int(np.argsort(public)[target_place])
            before = _places(honest, target)
            for attack in attacks:
                votes, shown = _attack(honest, number, attack, choice, target, public, table, setup, generator)
                after = _places(votes, target)
                found[attack, target_place, choice] = [
                    _One(name, shown, before[name][0] - after[name][0], after[name][1] - before[name][1])
                    for name in BOARDS
                ]
    return found


def _attack(
    honest: Votes, number: int, attack: str, choice: Choice, target: int, public: Floats, table: PairWeights,
    setup: Setup, generator: np.random.Generator,
) -> tuple[Votes, float]:  # fmt: skip
    """Add the attackers' votes; also return the share of their battles that show the target."""
    each = setup.attack_votes or setup.votes_each
    member = np.repeat(np.arange(number), each)
    if choice == "chosen":
        left, right = _choose(attack, target, public, len(member), generator)
    else:
        left, right = draw_battles(table, len(member), generator)
    one = draw_honest(generator, public, 1, ability_sd=0.0, tie_share=setup.tie_share, variety=setup.variety)
    own = one.vote(np.zeros(len(member), dtype=np.int64), left, right, generator)
    age = np.tile((np.arange(each) + 0.5) / each, number)
    scene = Scene(member, left, right, own, age, public, target, setup.tie_share)
    outcome = STRATEGIES[attack](scene, generator)
    together = Votes(
        np.concatenate([honest.annotator, member + setup.n_annotators - number]),
        np.concatenate([honest.left, left]), np.concatenate([honest.right, right]),
        np.concatenate([honest.outcome, outcome]), np.arange(len(honest.annotator) + len(member)),
        setup.n_annotators, setup.n_models,
    )  # fmt: skip
    return together, float(((left == target) | (right == target)).mean())


def _choose(
    attack: str, target: int, public: Floats, number: int, generator: np.random.Generator
) -> tuple[Indices, Indices]:
    """Choose the battles that serve an attack: of the target, or of the models just above it."""
    size = len(public)
    wanted = np.full(number, target)
    if attack == "omnipresent":
        order = np.argsort(-public)
        place = int(np.flatnonzero(order == target)[0])
        above = order[max(0, place - RIVALS) : place] if place else order[1:2]
        wanted = generator.choice(above, number)
    return wanted, (wanted + generator.integers(1, size, number)) % size


def _places(votes: Votes, target: int) -> dict[str, tuple[float, float]]:
    """Return the rank and score of the target on every leaderboard."""
    return {name: find_place(votes, settings, target) for name, settings in BOARDS.items()}
