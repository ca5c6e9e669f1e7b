"""Estimators for notebooks: scikit-learn's conventions, over tables of votes; docs/notebook.md shows them."""

from app.rating.errors import NotFittedError, RatingWarning
from app.rating.estimators.am_elo import AmElo
from app.rating.estimators.bradley_terry import BradleyTerry
from app.rating.estimators.elo import Elo
from app.rating.estimators.reading import read_votes

__all__ = ["AmElo", "BradleyTerry", "Elo", "NotFittedError", "RatingWarning", "read_votes"]
