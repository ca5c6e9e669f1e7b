from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:  # the command line imports this module to print its help
    from collections.abc import Sequence

    from app.rating.arrays import Floats, Indices


def counted(number: float, noun: str) -> str:
    """Return a number with its noun: `1 vote`, `2,000 votes`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


MODELS_NAMED = 5  # that a notice names in its sentence


class RatingError(Exception):
    """Root of the errors of `app.rating`; the message is one line for the user."""


VotesFault = Literal["invalid", "column", "shape", "type", "value", "too-many", "no-votes"]


class VotesError(RatingError, ValueError):
    """The votes are malformed, or none is left to fit.

    `code` says what is wrong in a word: a column is missing; arrays differ in length, or have more dimensions than one;
    names or numbers are of the wrong type; a value is missing, unknown or out of range; there are more annotators or
    models than can be numbered; or no vote is left.
    """

    def __init__(self, message: str, code: VotesFault = "invalid") -> None:
        super().__init__(message)
        self.code = code


class NotFittedError(RatingError, ValueError, AttributeError):
    """An estimator was asked for a result before `fit`."""


class RatingWarning(UserWarning):
    """A notice about a result that is defined all the same; the message ends with its code."""


@dataclass(frozen=True)
class RatingNotice:
    """A warning about a result that is defined all the same.

    Attributes
    ----------
    code : one of docs/math/fit.md, "Notices"; never changes its meaning
    detail : one sentence, without the names of the models
    models : indices of the models that it concerns, where it concerns some
    """

    code: str
    detail: str
    models: tuple[int, ...] = ()

    def named(self, names: Sequence[Any]) -> dict[str, Any]:
        """Return the notice with the names of its models, `names` in the order of the indices."""
        models = [str(names[model]) for model in self.models]
        rest = f" and {len(models) - MODELS_NAMED} more" if len(models) > MODELS_NAMED else ""
        detail = f"{self.detail}: {', '.join(models[:MODELS_NAMED])}{rest}" if models else self.detail
        return {"code": self.code, "detail": detail, "models": models}


NAMED = 10
"""Annotators that an error names; there may be thousands."""


class NoFiniteMaximumError(RatingError):
    """The maximum likelihood has no finite maximum in the abilities of `annotators` (indices).

    `word` says why: all their votes `follow` or `oppose` the ranking, or the abilities `outgrow` every multiple of the
    typical ability, because the votes put that at 0. The message counts the annotators, and names the first ten of
    `names`.
    """

    def __init__(self, annotators: Indices, word: str, names: tuple[str, ...] = ()) -> None:
        number = counted(len(annotators), "annotator")
        why = f"every vote of {number} {word}s the ranking, so no finite ability is best for them"
        if word == "outgrow":
            why = f"the votes put the typical ability at 0, so the abilities of {number} exceed every multiple of it"
        super().__init__(
            f"maximum likelihood am-ELO has no finite maximum: {why}; use a prior, or raise the minimum of votes"
            f"{': ' if names else ''}{', '.join(names[:NAMED])}"
            f"{f' and {len(names) - NAMED:,} more' if len(names) > NAMED else ''}"
        )
        self.annotators, self.word, self.names = annotators, word, names

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.annotators, self.word, self.names)


class NoFiniteScoreError(RatingError):
    """m-ELO has no finite maximum: `models` (indices) cannot be reached from every other along wins, or the reverse."""

    def __init__(self, models: Indices) -> None:
        super().__init__(
            f"m-ELO has no finite maximum: {counted(len(models), 'model')} only won or only lost against the others of "
            "their component, or are linked to it only through such a model"
        )
        self.models = models

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.models,)


class NotConvergedError(RatingError):
    """The solver did not converge; `R` and `theta` are its last point."""

    def __init__(self, message: str, R: Floats, theta: Floats) -> None:
        super().__init__(message)
        self.R = R
        self.theta = theta

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self), self.R, self.theta)


class SaddlePointError(NotConvergedError):
    """The fit is at a saddle point: the likelihood rises in both directions along `direction`.

    The direction is a change of the scores in natural units, shape (n_models,), its largest entry 1.
    """

    def __init__(self, R: Floats, theta: Floats, direction: Floats) -> None:
        super().__init__("the fit is at a saddle point of the likelihood", R, theta)
        self.direction = direction

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.R, self.theta, self.direction)


class NoCommonRankingError(RatingError):
    """The median or mean ability is at or below 0.1: the annotators have no common ranking, and cannot set a unit."""


class ClusterError(RatingError):
    """The processes or machines that hold the votes of a fit cannot be reached, or died."""
