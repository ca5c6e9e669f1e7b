from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the command line imports this module to print its help
    from app.rating.data.arrays import Floats, Indices


class RatingError(Exception):
    """Root of everything `app.rating` refuses to do; the message is one line for the user."""


class VotesError(RatingError):
    """The votes are malformed, or none is left to fit."""


class NoFiniteMaximumError(RatingError):
    """The plain likelihood has no finite maximum, for the abilities of `annotators` (indices).

    They all `follow` or `oppose` the ranking; or they `outgrow` every multiple of the typical ability, whose annotators
    may as well toss coins. The message counts them; a caller that knows their names can name them.
    """

    def __init__(self, annotators: Indices, word: str) -> None:
        number = len(annotators)
        why = f"every vote of {number} annotator(s) {word}s the ranking, so no finite ability is best for them"
        if word == "outgrow":
            why = (
                f"the abilities of {number} annotator(s) grow beyond any multiple of the typical one, which the votes "
                "put at 0"
            )
        super().__init__(
            f"plain am-ELO has no finite maximum: {why}; use the robust default (a prior), or a larger minimum of votes"
        )
        self.annotators = annotators
        self.word = word

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.annotators, self.word)


class NoFiniteScoreError(RatingError):
    """m-ELO has no finite maximum: `models` (indices) cannot be reached from every other along wins, or the reverse."""

    def __init__(self, models: Indices) -> None:
        super().__init__(
            f"m-ELO has no finite maximum: {len(models)} model(s) only won or only lost against the others of their "
            "component, or hang on one that did"
        )
        self.models = models

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.models,)


class NotConvergedError(RatingError):
    """The solver stopped before its result met the convergence criteria; `R` and `theta` are where it stood."""

    def __init__(self, message: str, R: Floats, theta: Floats) -> None:
        super().__init__(message)
        self.R = R
        self.theta = theta

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self), self.R, self.theta)


class SaddlePointError(NotConvergedError):
    """The fit stands at a saddle point: the likelihood rises either way along `direction`.

    Scores move by that, natural units, shape (n_models,), the largest by 1, and abilities follow.
    """

    def __init__(self, R: Floats, theta: Floats, direction: Floats) -> None:
        super().__init__("the fit stands at a saddle point of the likelihood", R, theta)
        self.direction = direction

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.R, self.theta, self.direction)


class NoCommonRankingError(RatingError):
    """The median ability is at or below 0.1: nothing is divided by it, the crowd has no common ranking."""
