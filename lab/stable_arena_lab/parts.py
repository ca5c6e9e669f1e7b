"""The engine without one of its parts: what takes each part out, and in which worlds it is missed."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache, wraps
from types import FunctionType
from typing import Any

import numba
import numpy as np

from app.rating.arrays import Floats, Indices
from app.rating.model import crowd, crowds, expansion, kernels, law, scores
from app.rating.model.copies import Answers, Copies
from app.rating.model.covariance import MOST_FREEDOM, ScoreCovariance
from app.rating.model.crowd import Clusters, Crowd, Directions
from app.rating.model.scores import MarginalFit
from app.rating.types import favouritism, habits
from app.rating.types.law import COIN, EQUAL, FOLLOWER, LEFT, RIGHT, Table
from app.rating.uncertainty import covariance
from app.rating.verdict.flags import Flagger
from app.rating.votes.cells import CellArrays, Cells

Change = Callable[[Any], Any]
"""Returns what stands in place of what is there."""


def _pull_by_ability(theta: float) -> float:
    return theta


@cache
def _unbounded(kernel: Any) -> Any:
    """Compile a kernel again with h(θ) = θ; without a cache, which goes by the source."""
    jit: Any = numba.njit
    function, options = getattr(kernel, "py_func", kernel), getattr(kernel, "targetoptions", {})
    names = {**function.__globals__, "pull_of": jit(_pull_by_ability)}
    again = FunctionType(function.__code__, names, function.__name__)
    return jit(nogil=True, error_model="numpy", fastmath=options.get("fastmath", False))(again)


def _unlimited(_: Change) -> Callable[[Cells, float | None], Floats]:
    return lambda cells, _limit: np.ones(len(cells.n))


def _without_followers(follow: Callable[..., None]) -> Callable[..., None]:
    def leave_out(cells: CellArrays, ranking: Floats, temper: float, extra: Floats) -> None:
        follow(cells, ranking, temper, extra)
        extra[:, kernels.FOLLOWER] = -np.inf

    return leave_out


def _each_alone(find: Callable[..., Floats]) -> Callable[..., Floats]:
    """Judge who pushes a model as if no other annotator did: every row is of a model of its own."""

    def find_alone(model: Indices, likelihood: Floats, judges: Floats) -> Floats:
        more = len(model) / max(int((judges > 0.0).sum()), 1)  # the prior goes by the number of models
        with replaced((favouritism, "MODELS", lambda models: models * more)):
            return find(np.arange(len(model)), likelihood, judges[model])

    return find_alone


def _no_copies(_: Change) -> Callable[[Answers], Copies]:
    return lambda answers: Copies(np.arange(len(answers.starts) - 1), np.empty(0, dtype=np.int64), 0)


def _freely(find: Callable[[MarginalFit], ScoreCovariance]) -> Callable[[MarginalFit], ScoreCovariance]:
    def find_freely(fit: MarginalFit) -> ScoreCovariance:
        found = find(fit)
        return replace(found, freedom=np.full_like(found.freedom, MOST_FREEDOM))

    return find_freely


Cluster = Callable[[Crowd, Directions, Floats], Clusters]


def _without_leverage(cluster: Cluster) -> Cluster:
    @wraps(cluster)
    def cluster_plainly(some: Crowd, directions: Directions, information: Floats) -> Clusters:
        unscaled = cluster(some, directions, np.full_like(information, 1e300))  # every share is 0
        return replace(cluster(some, directions, information), meat=unscaled.meat)

    return cluster_plainly


def _by_annotator_alone(cluster: Cluster) -> Cluster:
    @wraps(cluster)
    def cluster_alone(some: Crowd, directions: Directions, information: Floats) -> Clusters:
        found = cluster(some, directions, information)
        return replace(found, by_vote=np.zeros_like(found.by_vote))

    return cluster_alone


def _without_types(*types: int) -> Change:
    def change(fill: Callable[[habits.Typing], Table]) -> Callable[[habits.Typing], Table]:
        def fill_without(typing: habits.Typing) -> Table:
            table = fill(typing)
            table.fixed[:, list(types)] -= 1e9
            return table

        return fill_without

    return change


def _constant(value: Any) -> Change:
    return lambda _: value


PARTS: Mapping[str, tuple[tuple[Any, str, Change], ...]] = {
    "bound on able annotators": (
        (crowd, "find_contributions", _unbounded), (crowd, "find_clusters", _unbounded),
        (expansion, "expand_cells", _unbounded),
    ),
    "influence limit": ((crowds, "weigh_votes", _unlimited), (expansion, "weigh_votes", _unlimited)),
    "stretch of the plain votes": ((scores.Search, "stretching", _constant(False)),),
    "followers in the fit": ((crowd, "follow_ranking", _without_followers),),
    "estimated spread": (
        (law, "LEAST_SPREAD", _constant(law.ASSUMED_SPREAD)), (law, "MOST_SPREAD", _constant(law.ASSUMED_SPREAD)),
    ),
    "groups of pushers": ((favouritism, "find_groups", _each_alone),),
    "lower weight of pushers": ((Flagger, "trust", _constant(lambda *_: None)),),
    "near-copies": ((covariance, "find_copies", _no_copies),),
    "degrees of freedom": ((covariance, "find_covariance", _freely),),
    "leverage": ((Crowd, "cluster", _without_leverage), (covariance, "LARGEST_SHARE", _constant(0.0))),
    "votes as independent": ((Crowd, "cluster", _by_annotator_alone),),
    "tastes": ((habits, "find_taste_variance", _constant(lambda *_: 0.0)),),
    "leans": ((habits.Typing, "_find_leans", _constant(lambda _: np.array([1e-12, 1e-12, 0.5, 0.5]))),),
    "type follower": ((habits.Typing, "_fill", _without_types(FOLLOWER)),),
    "type equal": ((habits.Typing, "_fill", _without_types(EQUAL)),),
    "type side": ((habits.Typing, "_fill", _without_types(LEFT, RIGHT)),),
    "type coin": ((habits.Typing, "_fill", _without_types(COIN)),),
}  # fmt: skip
"""What each part is replaced by: the owner of a name, the name, and what makes the replacement."""
OF_ERRORS = ("near-copies", "degrees of freedom", "leverage", "votes as independent")
"""Parts of the errors alone: they move no score."""


@contextmanager
def replaced(*changes: tuple[Any, str, Change]) -> Iterator[None]:
    """Put replacements in place in the block, for every thread of this process."""
    with ExitStack() as stack:
        for owner, name, change in changes:
            before = getattr(owner, name)
            stack.callback(setattr, owner, name, before)
            setattr(owner, name, change(before))
        yield


def without(part: str) -> Any:
    """Take a part of `PARTS` out of the engine in the block."""
    return replaced(*PARTS[part])
