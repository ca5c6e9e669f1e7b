"""The mathematics: votes as arrays in, a leaderboard out. It imports numpy, scipy and numba, nothing of the service.

Rooms, each of which imports only from the ones before it:

- `data`: votes, cells (votes by annotator and pair), the comparison graph, threads, compiled kernels
- `solver`: the likelihood, its Newton solvers, m-ELO, am-ELO, Elo; bias correction; abilities at fixed scores
- `inference`: which models have a finite score, covariance, intervals, ranks, influence of votes and annotators
- `detection` and `robustness`: evidence against annotators, flag rules; how few votes decide the order of two models
- `loop`: one round of the Stable Arena loop, its results and notices; slices of the votes; Elo over orders
- `estimators`: the face for notebooks (docs/notebook.md), over the same code

`settings` holds the settings of a round, `errors` the errors. Verbs: `fit_…` finds the parameters of one method for
given votes; `minimise` is the numerical search behind it; `solve` is for linear systems; `estimate` is a fit of the
identified models with its covariance; `run_round` does all of it, and flags.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from app.rating.errors import NotFittedError, RatingWarning
    from app.rating.estimators.am_elo import AmElo
    from app.rating.estimators.bradley_terry import BradleyTerry
    from app.rating.estimators.elo import Elo
    from app.rating.estimators.reading import read_votes

__all__ = ["AmElo", "BradleyTerry", "Elo", "NotFittedError", "RatingWarning", "read_votes"]

_ROOMS = {
    "AmElo": "app.rating.estimators.am_elo",
    "BradleyTerry": "app.rating.estimators.bradley_terry",
    "Elo": "app.rating.estimators.elo",
    "NotFittedError": "app.rating.errors",
    "RatingWarning": "app.rating.errors",
    "read_votes": "app.rating.estimators.reading",
}


def __getattr__(name: str) -> Any:
    """Import the face when it is first asked for: the service imports `app.rating` without it."""
    if name not in _ROOMS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_ROOMS[name]), name)
