"""The strategies of attackers, one function each.

A strategy takes the scene and returns W of the attackers' votes. Attackers know the public leaderboard, not the truth.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from app.rating.arrays import Floats, Indices
from app.rating.votes.columns import TIE

HALF_WAY = 0.5
RIVALS = 4  # models above the target that "omnipresent" votes against


@dataclass(frozen=True)
class Scene:
    """The attackers' battles, arrays of shape (n_votes,), each attacker's in the order of voting.

    Attributes
    ----------
    member : number of the attacker, from 0
    left, right : the models as shown
    honest : W (for left) of an honest annotator with the attacker's ability
    age : share of the attacker's votes cast before, 0 to 1
    public : scores that the attackers see, Elo points, shape (n_models,)
    target : the model that they push
    tie_share : of honest votes between equals
    """

    member: Indices
    left: Indices
    right: Indices
    honest: Floats
    age: Floats
    public: Floats
    target: int
    tie_share: float


Strategy = Callable[[Scene, np.random.Generator], Floats]


def coin(scene: Scene, generator: np.random.Generator) -> Floats:
    """Answer at random, with as many ties as an honest annotator between equals."""
    draw = generator.random(len(scene.left))
    half = scene.tie_share / 2.0
    return np.where(draw < 0.5 - half, 1.0, np.where(draw < 0.5 + half, 0.5, 0.0))


def paper_random(scene: Scene, generator: np.random.Generator) -> Floats:
    """Give one of the two answers that an honest vote does not have (am-ELO paper, "Random")."""
    other = generator.integers(0, 2, len(scene.left)) == 0
    return np.where(scene.honest == TIE, other * 1.0, np.where(other, 0.5, 1.0 - scene.honest))


def equal(scene: Scene, generator: np.random.Generator) -> Floats:  # noqa: ARG001  a strategy's signature
    """Vote for a tie every time."""
    return np.full(len(scene.left), 0.5)


def flip(scene: Scene, generator: np.random.Generator) -> Floats:  # noqa: ARG001
    """Vote the opposite of an honest vote."""
    return 1.0 - scene.honest


def mixed(scene: Scene, generator: np.random.Generator) -> Floats:
    """Choose random, equal or flip for every vote (am-ELO paper, "Mixed")."""
    which = generator.integers(0, 3, len(scene.left))
    choices = [strategy(scene, generator) for strategy in (paper_random, equal, flip)]
    return np.choose(which, choices)


def target_only(scene: Scene, generator: np.random.Generator) -> Floats:  # noqa: ARG001
    """Vote for the target where it is shown, else honestly."""
    return _for(scene.target, scene, scene.honest)


def against_only(scene: Scene, generator: np.random.Generator) -> Floats:  # noqa: ARG001
    """Vote against the model just above the target, else honestly."""
    return 1.0 - _for(_above(scene, 1)[0], scene, 1.0 - scene.honest)


def mimic(scene: Scene, generator: np.random.Generator) -> Floats:  # noqa: ARG001
    """Follow the public ranking, and vote for the target."""
    return _for(scene.target, scene, _by_ranking(scene, scene.public))


def careful_mimic(scene: Scene, generator: np.random.Generator) -> Floats:
    """Mimic in disguise: every third vote is honest, also as a tie."""
    disguise = generator.random(len(scene.left)) < 1.0 / 3.0
    return _for(scene.target, scene, np.where(disguise, scene.honest, _by_ranking(scene, scene.public)))


def omnipresent(scene: Scene, generator: np.random.Generator) -> Floats:  # noqa: ARG001
    """Raise the target without its battles: honest in these, against the models just above it in all others."""
    rivals = _above(scene, RIVALS)
    left, right = np.isin(scene.left, rivals), np.isin(scene.right, rivals)
    outcome = np.where(left & ~right, 0.0, np.where(right & ~left, 1.0, scene.honest))
    own = (scene.left == scene.target) | (scene.right == scene.target)
    return np.where(own, scene.honest, outcome)


def always_left(scene: Scene, generator: np.random.Generator) -> Floats:  # noqa: ARG001
    """Vote for the model on the left."""
    return np.ones(len(scene.left))


def copycats(scene: Scene, generator: np.random.Generator) -> Floats:  # noqa: ARG001
    """Copy the first member's votes, which are for the target, else honest."""
    first = _for(scene.target, scene, scene.honest)[scene.member == 0]
    return np.tile(first, int(scene.member.max()) + 1)


def slow_drift(scene: Scene, generator: np.random.Generator) -> Floats:
    """Vote honestly at first, then more and more for the target."""
    turned = generator.random(len(scene.left)) < scene.age
    return np.where(turned, _for(scene.target, scene, scene.honest), scene.honest)


def sleeper(scene: Scene, generator: np.random.Generator) -> Floats:  # noqa: ARG001
    """Vote honestly in the first half, and flip the second half."""
    return np.where(scene.age < HALF_WAY, scene.honest, 1.0 - scene.honest)


def framing(scene: Scene, generator: np.random.Generator) -> Floats:
    """Follow one false ranking, so that the leaderboard follows it too and honest votes seem to oppose it.

    The ranking is the public one with two thirds of the models in each other's places.
    """
    false = scene.public.copy()
    moved = generator.permutation(len(false))[: 2 * (len(false) // 3)]
    false[moved] = scene.public[np.roll(moved, len(moved) // 2)]
    return _by_ranking(scene, false)


def framing_by_copy(scene: Scene, generator: np.random.Generator) -> Floats:  # noqa: ARG001
    """Repeat one honest annotator's votes (in `honest`), so that both look like copies."""
    return scene.honest


def _for(model: int, scene: Scene, otherwise: Floats) -> Floats:
    return np.where(scene.left == model, 1.0, np.where(scene.right == model, 0.0, otherwise))


def _by_ranking(scene: Scene, score: Floats) -> Floats:
    return np.where(score[scene.left] >= score[scene.right], 1.0, 0.0)


def _above(scene: Scene, number: int) -> Indices:
    """Return the models just above the target in the public ranking, nearest first; for the first, the next below."""
    order = np.argsort(-scene.public)
    place = int(np.flatnonzero(order == scene.target)[0])
    nearest = order[max(0, place - number) : place][::-1]
    return nearest if len(nearest) else order[place + 1 : place + 2]


STRATEGIES: dict[str, Strategy] = {
    "coin": coin,
    "paper-random": paper_random,
    "equal": equal,
    "flip": flip,
    "mixed": mixed,
    "target-only": target_only,
    "against-only": against_only,
    "mimic": mimic,
    "careful-mimic": careful_mimic,
    "omnipresent": omnipresent,
    "always-left": always_left,
    "copycats": copycats,
    "slow-drift": slow_drift,
    "sleeper": sleeper,
    "framing": framing,
    "framing-by-copy": framing_by_copy,
}
