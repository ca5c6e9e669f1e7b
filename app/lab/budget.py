"""What it costs to lift a model by one rank: attackers added to real votes until the board gives way."""

from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from app.lab.attacks.honest import Honest
from app.lab.attacks.strategies import STRATEGIES, Scene
from app.lab.simulate import NATURAL_PER_ELO, draw_pairs
from app.rating.errors import RatingError
from app.rating.evidence.judge import weigh
from app.rating.results import Board, LoopSettings
from app.rating.stable_arena import run_stable_arena
from app.rating.votes import Cells, aggregate

Floats = NDArray[np.float64]
Defence = Literal["m-elo", "none", "ε", "evidence, then ε"]
DEFENCES: tuple[Defence, ...] = get_args(Defence)
TIES_AT_MOST = 0.49


@dataclass(frozen=True)
class Attack:
    """How every attacker behaves.

    Attributes
    ----------
    strategy : of `STRATEGIES`, but for those that need other annotators' votes (copycats, framing-by-copy)
    votes_each : battles of each
    chosen : whether every battle is one of the target's, as where voters pick what they compare; else uniform pairs
    """

    strategy: str = "target-only"
    votes_each: int = 51
    chosen: bool = False


@dataclass(frozen=True)
class Budget:
    """The least that lifts one model by one rank.

    Attributes
    ----------
    defence : in force: "m-elo" (Bradley-Terry, nobody left out), "none" (the settings' own board, nobody left out),
        "ε" (those at or below it left out), "evidence, then ε" (those whom a test marks left out first)
    rank : before the attack, within the component
    annotators, votes : of the attackers; None where not even `most` of them are enough
    most : attackers tried at most
    """

    defence: Defence
    model: int
    rank: int
    annotators: int | None
    votes: int | None
    most: int


def find_budget(
    cells: Cells, settings: LoopSettings, model: int, attack: Attack, defence: Defence, *, most: int, seed: int = 0
) -> Budget:
    """Find the smallest number of attackers that lifts a model by a rank or more on the board that the defence leaves.

    Parameters
    ----------
    cells : the votes on record
    settings : of the board
    model : the target, a model with a score that is not the first
    most : attackers to try at most

    Notes
    -----
    By doubling and halving, about 2 log₂(most) fits; the same seed gives an attacker the same votes whatever their
    number. More attackers are taken to do at least as much as fewer.

    Raises
    ------
    ValueError
        The model has no score, or is the first already.
    """
    before = _board(cells, settings, defence)
    if not before.identified[model] or before.rank[model] == 1:
        raise ValueError(f"model {model} has no score, or is the first already")
    rank = int(before.rank[model])
    public = np.where(before.identified, before.score, np.nanmin(before.score))
    tie_share = _tie_share(cells, public)

    def lifted(number: int) -> bool:
        joined = add_attackers(cells, public, model, attack, number=number, tie_share=tie_share, seed=seed)
        try:
            after = _board(joined, settings, defence)
        except RatingError:
            return False
        return bool(after.identified[model] and after.rank[model] < rank)

    too_few, enough = 0, 1
    while not lifted(enough):
        if enough >= most:
            return Budget(defence, model, rank, None, None, most)
        too_few, enough = enough, min(2 * enough, most)
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        if lifted(middle):
            enough = middle
        else:
            too_few = middle
    return Budget(defence, model, rank, enough, enough * attack.votes_each, most)


def add_attackers(
    cells: Cells, public: Floats, target: int, attack: Attack, *, number: int, tie_share: float, seed: int
) -> Cells:
    """Return the cells with the votes of attackers, new annotators after all others."""
    parts = [_votes_of(public, target, attack, tie_share, np.random.default_rng([seed, k])) for k in range(number)]
    left, right, outcome = (np.concatenate(column) for column in zip(*parts, strict=True))
    annotator = np.repeat(np.arange(number), attack.votes_each)
    new = aggregate(annotator, left, right, outcome, n_annotators=number, n_models=cells.n_models)
    return Cells(
        np.concatenate([cells.annotator, new.annotator + cells.n_annotators]).astype(np.int32),
        np.concatenate([cells.model_a, new.model_a]),
        np.concatenate([cells.model_b, new.model_b]),
        np.concatenate([cells.n, new.n]),
        np.concatenate([cells.s, new.s]),
        np.concatenate([cells.ties, new.ties]),
        cells.n_annotators + number,
        cells.n_models,
    )


def _votes_of(
    public: Floats, target: int, attack: Attack, tie_share: float, generator: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
    """Draw one attacker's battles and verdicts."""
    size, each = len(public), attack.votes_each
    left, right = draw_pairs(generator, size, each)
    if attack.chosen:
        left = np.full(each, target)
        right = (target + generator.integers(1, size, each)) % size
    one = Honest(np.ones(1), public[None, :], np.array([tie_share]), np.zeros(1))
    nobody = np.zeros(each, dtype=np.int64)
    honest = one.vote(nobody, left, right, generator)
    age = (np.arange(each) + 0.5) / each
    scene = Scene(nobody, left, right, honest, age, public, target, tie_share)
    return left, right, STRATEGIES[attack.strategy](scene, generator)


def _board(cells: Cells, settings: LoopSettings, defence: Defence) -> Board:
    quiet = replace(settings, interval="none", exclude=defence in ("ε", "evidence, then ε"))
    if defence == "m-elo":
        return run_stable_arena(cells, replace(quiet, method="m-elo")).board
    if defence != "evidence, then ε":
        return run_stable_arena(cells, quiet).board
    first = run_stable_arena(cells, replace(quiet, exclude=False))
    judged = cells.where(~np.isnan(first.crowd.ability)[cells.annotator])
    guilty = weigh(judged, NATURAL_PER_ELO * (first.board.score - settings.base)).flagged()
    return run_stable_arena(cells, quiet, keep_never=guilty).board


def _tie_share(cells: Cells, public: Floats) -> float:
    """Share of ties between equals, from the votes at hand."""
    p = 1.0 / (1.0 + np.exp(-NATURAL_PER_ELO * (public[cells.model_a] - public[cells.model_b])))
    share = float(cells.ties.sum() / (cells.n @ (4.0 * p * (1.0 - p))))
    return min(share, TIES_AT_MOST)
