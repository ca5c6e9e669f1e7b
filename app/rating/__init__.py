"""The mathematics: votes as arrays in, a leaderboard out.

It imports numpy, scipy and numba, and nothing of the service; the estimators import polars and narwhals too.

Rooms, each of which imports only from the ones before it:

- `data`: votes, cells (votes by annotator and pair), the comparison graph, threads, compiled kernels
- `solver`: the likelihood; am-ELO by sequential quadratic programming, m-ELO by Newton, Elo; bias correction; abilities
  at fixed scores
- `inference`: which models have a finite score, covariance, intervals, ranks, notices, influence of annotators
- `detection` and `robustness`: evidence against annotators, flag rules; how few votes decide the order of two models
- `loop`: one round of the Stable Arena loop; slices of the votes; Elo over orders
- `estimators`: the face for notebooks (docs/notebook.md), over the same code

`settings` holds the settings of a round, `errors` the errors. Verbs: `fit_…` finds the parameters of one method for
given votes, and return a `FitResult`; `minimise` is the numerical search behind it; `solve` is for linear systems;
`estimate` fits the identified models, with their covariance, as a `Rating`; `run_round` does it for a round, and flags.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from app.rating.estimators import AmElo, BradleyTerry, Elo, NotFittedError, RatingWarning, read_votes

__all__ = ["AmElo", "BradleyTerry", "Elo", "NotFittedError", "RatingWarning", "read_votes"]


def __getattr__(name: str) -> Any:
    """Import the estimators when they are first asked for; the service imports this package without them."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("app.rating.estimators"), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
