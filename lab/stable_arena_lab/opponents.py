"""Records against better and worse models, and who gains by the choice of opponents: the am-ELO paper's Figure 4."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from app.rating.arrays import Floats
from app.rating.simulation.worlds import draw_pairs, make_world
from stable_arena_lab.arenas import PAPER_ANNOTATORS, PAPER_MODELS, PAPER_VOTES, Arena
from stable_arena_lab.methods import METHODS, Method, rate
from stable_arena_lab.parallel import Progress, map_seeds
from stable_arena_lab.spread import mean_or_none, se_or_none

AVOIDER, SEEKER = 0, 1
SHUFFLES = 200


@dataclass(frozen=True)
class Record:
    """A model's battles with models that m-ELO puts above it and below it.

    Attributes
    ----------
    better_won, worse_won : share won, a tie being half a win; None without battles
    """

    model: str
    better_votes: int
    better_won: float | None
    worse_votes: int
    worse_won: float | None


@dataclass(frozen=True)
class Opponents:
    """What two models of equal strength get, one of which meets only weak opponents, the other only strong ones.

    Attributes
    ----------
    avoider, seeker : mean error of the score, Elo points, and its standard error over the arenas
    gap : avoider's score minus seeker's; 0 would be right
    answered : arenas in which the method has a result
    """

    method: Method
    avoider: float | None
    avoider_se: float | None
    seeker: float | None
    seeker_se: float | None
    gap: float | None
    gap_se: float | None
    answered: int


def tabulate_records(arena: Arena, score: Floats) -> list[Record]:
    """Return every model's record; opponents of equal or unknown score do not count."""
    own, other = np.concatenate([[arena.model_a, arena.model_b], [arena.model_b, arena.model_a]], axis=1)
    won = np.concatenate([arena.outcome, 1.0 - arena.outcome])
    records = []
    for model in range(arena.n_models):
        mine = own == model
        sides = [won[mine & beyond] for beyond in (score[other] > score[model], score[other] < score[model])]
        columns = [part for side in sides for part in (len(side), mean_or_none(side.tolist()))]
        records.append(Record(arena.name_of(model), *columns))  # type: ignore[arg-type]  # in this order
    return records


def compare_opponents(
    seeds: Sequence[int], *, shuffles: int = SHUFFLES, progress: Progress | None = None
) -> list[Opponents]:
    """Rate an arena of each seed by every method, and compare the model that avoids strong opponents with its equal."""

    def errors(seed: int) -> dict[Method, tuple[float, float]]:
        arena = avoiding_arena(seed)
        found = {method: rate(arena, method, seed=seed, shuffles=shuffles) for method in METHODS}
        return {
            method: (float(error[AVOIDER]), float(error[SEEKER]))
            for method, rated in found.items()
            if rated is not None
            for error in [rated.score - rated.score[2:].mean()]
        }

    repeats = map_seeds(errors, seeds, progress=progress)
    rows = []
    for method in METHODS:
        avoider, seeker = ([each[method][side] for each in repeats if method in each] for side in (AVOIDER, SEEKER))
        gap = [one - two for one, two in zip(avoider, seeker, strict=True)]
        rows.append(
            Opponents(
                method,
                mean_or_none(avoider), se_or_none(avoider), mean_or_none(seeker), se_or_none(seeker),
                mean_or_none(gap), se_or_none(gap), len(gap),
            )
        )  # fmt: skip
    return rows


def avoiding_arena(seed: int) -> Arena:
    """Simulate honest votes in the am-ELO paper's size, where models 0 and 1 are as good as the mean of the others.

    Model 0 meets only the weaker half of the others, and model 1 only the stronger half; the other pairs are uniform.
    """
    generator = np.random.default_rng(seed)
    world = make_world(generator, n_models=PAPER_MODELS, roles={"honest": PAPER_ANNOTATORS})
    others = world.score[2:]
    world = replace(world, score=np.concatenate([[others.mean()] * 2, others]))
    weak, strong = np.split(2 + np.argsort(others), 2)
    model_a, model_b = draw_pairs(generator, PAPER_MODELS, PAPER_VOTES)
    for model, opponents in ((AVOIDER, weak), (SEEKER, strong)):
        for mine, theirs in ((model_a, model_b), (model_b, model_a)):
            battles = mine == model
            theirs[battles] = generator.choice(opponents, int(battles.sum()))
    annotator = generator.permutation(np.arange(PAPER_VOTES) % PAPER_ANNOTATORS)
    outcome = world.vote(annotator, model_a, model_b, generator)
    name = f"one model avoids strong opponents, seed {seed}"
    return Arena(name, annotator, model_a, model_b, outcome, PAPER_ANNOTATORS, PAPER_MODELS, world.score)
