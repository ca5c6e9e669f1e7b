"""All annotators of a fit, in parts: on the threads of this process, or on the executors in force."""

from collections.abc import Callable, Sequence
from functools import partial, reduce
from itertools import pairwise
from operator import add
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from app.rating.arrays import Floats
from app.rating.exchange import total
from app.rating.executors import Build, Message, Parts, place_parts
from app.rating.model.crowd import Crowd
from app.rating.model.law import Law, Posterior
from app.rating.model.weights import weigh_votes
from app.rating.sums import Sums
from app.rating.votes.cells import Cells

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S", bound=Sums)


class Crowds:
    """All annotators, in parts: on the threads of this process, or on the executors in force.

    The sums over the annotators are those of the same few units, added in order, wherever the units are: so they are
    the same to the last bit. Of the size of the votes, nothing leaves the units.

    Parameters
    ----------
    limit : of `app.rating.model.weights`
    temper, ranking, mode : of `Crowd`
    kind : what a unit is
    """

    def __init__(
        self, cells: Cells, limit: float | None, temper: float, ranking: Floats, mode: Floats | None = None, *,
        kind: Callable[..., Crowd] = Crowd,
    ) -> None:  # fmt: skip
        weight, cells = weigh_votes(cells, limit), cells.trusted()

        def unit(part: tuple[int, int]) -> Build:
            some = weight[slice(*cells.starts[list(part)])]
            own = None if mode is None else mode[slice(*part)]
            return partial(kind, cells.of_annotators(*part), some, temper, ranking, own)

        def build(number: int | None) -> Sequence[Build]:
            units = cells.split_annotators()
            number = len(units) if number is None else number
            units = units if number <= len(units) else cells.split_annotators(number)
            cuts = [len(units) * place // number for place in range(number + 1)]
            return [partial(_build, [unit(part) for part in units[first:last]]) for first, last in pairwise(cuts)]

        self._parts: Parts = place_parts(len(cells.n), build)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        self._parts.close()

    def each(self, work: Callable[Concatenate[Any, P], T], *args: P.args, **named: P.kwargs) -> list[T]:
        """Do the work in every unit; results in order."""
        message = Message(_work, (work, args, named), {})
        return [found for some in self._parts.run([message] * self._parts.number) for found in some]

    def total(self, work: Callable[Concatenate[Any, P], S], *args: P.args, **named: P.kwargs) -> S:
        """Do the work in every unit, and add up the sums."""
        return total(reduce(add, self.each(work, *args, **named)))

    def weigh(self, law: Law) -> Posterior:
        """Set all posteriors under a law; return their sums."""
        return self.total(Crowd.weigh, law)


def _build(units: Sequence[Build]) -> list[Any]:
    return [unit() for unit in units]


def _work(units: Sequence[Any], work: Callable[..., T], args: tuple[Any, ...], named: dict[str, Any]) -> list[T]:
    return [getattr(unit, work.__name__)(*args, **named) for unit in units]  # as a kind of crowd has it
