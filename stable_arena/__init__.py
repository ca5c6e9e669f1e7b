"""Ratings of arenas in a notebook: estimators after scikit-learn's conventions; docs/notebook.md shows them.

This package is the face for other programs. The code is in `app.rating`, and `app` is the service's own name: another
project may have a package of that name too, so only this one is imported from outside.
"""

from app import __version__
from app.rating.errors import NotFittedError, RatingWarning
from app.rating.estimators.am_elo import AmElo, BradleyTerry
from app.rating.estimators.elo import Elo
from stable_arena.files import read_votes

__all__ = ["AmElo", "BradleyTerry", "Elo", "NotFittedError", "RatingWarning", "__version__", "read_votes"]
