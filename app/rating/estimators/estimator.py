import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import Field, fields
from difflib import get_close_matches
from numbers import Real
from textwrap import fill
from typing import Any, ClassVar, Self

import numpy as np
import polars as pl

from app.rating.arrays import Floats, Indices
from app.rating.errors import NotFittedError, RatingNotice, RatingWarning, VotesError
from app.rating.estimators.tables import VotesLike, VoteTable, make_table, read_table
from app.rating.settings import DEFINITIONS, SettingError, check_numbers
from app.rating.votes.indexed import IndexedVotes

SHOWN = 10  # models in the text of a fitted estimator


class Estimator(ABC):
    """What the estimators share, by scikit-learn's conventions: parameters, the table of votes, the leaderboard.

    A subclass is a dataclass whose fields are its parameters. They are kept as they are given, and checked by `fit`.
    In its docstring `{settings}` stands for the parameters that `DEFINITIONS` explains.
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    _row_type: ClassVar[type]
    _shown: ClassVar[tuple[str, ...]]
    _in_time: ClassVar[bool] = False

    min_votes: float
    anchor: tuple[Any, float] | None
    features: Sequence[str] = ()
    votes_: IndexedVotes
    _kind: Any

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        settings = [name for name in cls.__annotations__ if name in DEFINITIONS]
        lines = (
            fill(f"{name} : {DEFINITIONS[name].explain('None')}", 116, subsequent_indent=" " * 8) for name in settings
        )
        cls.__doc__ = (cls.__doc__ or "").replace("{settings}", "\n    ".join(lines))

    @abstractmethod
    def fit(self, votes: VotesLike | VoteTable) -> Self:
        """Rate the models by the votes."""

    @abstractmethod
    def _rows(self) -> Sequence[Mapping[str, Any]]:
        """Return the leaderboard, best first."""

    @abstractmethod
    def _summary(self) -> str:
        """Return in a line which votes count."""

    @property
    def leaderboard(self) -> Any:
        """The models with counted votes, best first, as a table of the caller's kind."""
        self._check_fitted()
        return make_table(self._rows(), self._row_type, self._kind)

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002  scikit-learn's signature
        """Return the parameters by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name, and return the estimator.

        Raises
        ------
        ValueError
            There is no such parameter.
        """
        known = self.get_params()
        if unknown := [name for name in params if name not in known]:
            raise ValueError(f"{type(self).__name__} has no parameter {unknown[0]}; it has {', '.join(known)}")
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        changed = (
            f"{field.name}={getattr(self, field.name)!r}"
            for field in fields(self)
            if getattr(self, field.name) != field.default
        )
        call = f"{type(self).__name__}({', '.join(changed)})"
        if not hasattr(self, "votes_"):
            return call
        table = make_table(self._rows()[:SHOWN], self._row_type, "polars").select(self._shown)
        return f"{call}\n{self._summary()}\n{table.with_columns(pl.selectors.float().round(1))}"

    def _read(self, votes: VotesLike | VoteTable, *, needs_annotators: bool = False) -> VoteTable:
        """Read the table, if it is not read yet.

        Raises VotesError: as `read_table`; or the column annotator is missing where it is needed.
        """
        check_numbers(self, ["min_votes"])
        table = votes if isinstance(votes, VoteTable) else read_table(votes, self.features, in_time=self._in_time)
        if not table.annotated and (needs_annotators or self.min_votes > 0):
            why = "to estimate abilities" if needs_annotators else "for min_votes"
            raise VotesError(f"{type(self).__name__} needs the column annotator {why}", "column")
        return table

    def _find_anchor(self, models: Sequence[Any]) -> tuple[int, float] | None:
        """Return the anchor with the index of its model.

        Raises ValueError: it is no pair, or its model is unknown.
        """
        anchor: object = self.anchor
        match anchor:
            case None:
                return None
            case (model, Real() as points):
                return int(find_models(model, models)), float(points)
        raise SettingError("anchor", f"must be (model, Elo points), is {anchor!r}")

    def _check_fitted(self) -> None:
        if not hasattr(self, "votes_"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted: call fit(votes) first")

    def _warn(self, notices: Iterable[RatingNotice]) -> None:
        """Warn the caller of `fit`."""
        for notice in notices:
            detail = notice.named(self.votes_.models)["detail"]
            warnings.warn(f"{detail} ({notice.code})", RatingWarning, stacklevel=3)


def find_models(names: Any, models: Sequence[Any]) -> Indices:
    """Return the indices of these names, in their shape.

    Raises
    ------
    ValueError
        A name is unknown.
    """
    wanted = np.asarray(names, dtype=object)
    index = {name: i for i, name in enumerate(models)}
    for name in wanted.flat:
        if name not in index:
            near = get_close_matches(str(name), map(str, models), n=1)
            raise ValueError(f"there is no model {name!r} in the votes{f'; is it {near[0]!r}?' if near else ''}")
    return np.array([index[name] for name in wanted.flat], dtype=np.int64).reshape(wanted.shape)


def as_shape(values: Floats, shape: tuple[int, ...]) -> Any:
    """Return the values in this shape, a single one as a float."""
    return values.reshape(shape) if shape else float(values.item())
