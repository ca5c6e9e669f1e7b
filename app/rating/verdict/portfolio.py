"""The fewest models of which one is near the best in each category, if held-out votes say that categories differ."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.special import log_expit

from app.rating.arrays import Floats, Indices, Mask
from app.rating.errors import VotesError
from app.rating.uncertainty.covariance import Covariance, contrast_errors
from app.rating.uncertainty.freedom import critical_values
from app.rating.units import ELO_PER_NATURAL
from app.rating.verdict.categories import Categories, pool_categories
from app.rating.verdict.rating import Rating
from app.rating.votes.cells import find_places
from app.rating.votes.indexed import IndexedVotes

FOLDS = 5
SMALL = 1e-3  # of a model: what the bounds of all models together weigh beside one model less


@dataclass(frozen=True)
class HeldOut:
    """How much better scores by category predict votes that are held out than common scores do.

    Attributes
    ----------
    votes : how many votes were predicted
    gain : log-loss by the common scores less that by the categories' own, nats a vote
    half : half the width of its interval
    """

    votes: int
    gain: float
    half: float

    @property
    def differ(self) -> bool:
        """Whether the categories differ beyond error."""
        return self.gain > self.half


@dataclass(frozen=True)
class Portfolio:
    """A smallest set of models of which one is within a margin of the best in each category that has such a model.

    Attributes
    ----------
    models : indices, ascending
    serves : of each category, the model of the set with the least bound; −1 where none of all models is surely within
        the margin, shape (n_categories,)
    behind : by how much its score is below the category's best, Elo points, shape (n_categories,)
    at_most : bound on that; all bounds hold together, shape (n_categories,)
    """

    models: Indices
    serves: Indices
    behind: Floats
    at_most: Floats


def hold_out(votes: IndexedVotes, category: Indices, number: int, fit: Callable[[IndexedVotes], Rating]) -> HeldOut:
    """Predict every fifth of the votes by the others, with the scores of their category and with the common ones.

    A prompt is held out whole, so that what models do on it is not taken for what they do in its category; without
    prompts an annotator is, whose ability is then taken as 1.

    Parameters
    ----------
    votes : that count
    category : of each vote, `number` for none, shape (n_votes,)
    fit : rates the votes that are not held out; indices as in the votes

    Raises
    ------
    VotesError
        There are fewer prompts, or annotators, than folds.
    RatingError
        The rest of the votes has no fit.
    """
    prompt = votes.prompt if votes.prompt is not None else np.full(len(votes.outcome), -1)
    known = prompt >= 0
    unit = np.where(known, prompt, int(prompt.max(initial=-1)) + 1 + votes.annotator)
    _, unit = np.unique(unit, return_inverse=True)
    units = int(unit.max()) + 1
    if units < FOLDS:
        raise VotesError(f"votes of {units} annotators or prompts cannot be held out in {FOLDS} parts")
    fold = np.random.default_rng(0).permutation(units)[unit] % FOLDS
    gain, weight = np.full(len(unit), np.nan), np.ones(len(unit)) if votes.weight is None else votes.weight
    for out in range(FOLDS):
        whole = fit(votes.rows(fold != out))
        present = np.unique(category[fold != out])
        parts = [votes.rows((fold != out) & (category == each)).aggregate() for each in present.tolist()]
        if len(parts) > 1:
            found = pool_categories(whole, parts)
            place = {int(each): at for at, each in enumerate(present)}
            for each in range(number):
                here = (fold == out) & (category == each)
                if each in place and here.any():
                    own = _log_loss(votes, here, found.rating(place[each]))
                    gain[here] = _log_loss(votes, here, whole) - own
    known_gain = np.isfinite(gain)
    if not known_gain.any():
        raise VotesError("no vote that is held out is on two models with a score")
    total, mean = weight[known_gain].sum(), float(np.average(gain[known_gain], weights=weight[known_gain]))
    by_unit = np.bincount(unit[known_gain], weight[known_gain] * (gain[known_gain] - mean), units)
    half = float(critical_values(np.array(units - 1.0), whole.settings.confidence)) * np.sqrt(by_unit @ by_unit) / total
    return HeldOut(int(known_gain.sum()), mean, float(half))


def _log_loss(votes: IndexedVotes, some: Mask, rating: Rating) -> Floats:
    """Return the log-loss of some votes by a rating, NaN where one of the models has no score, shape (n,)."""
    R, W = rating.natural_scores(), votes.outcome[some]
    x = rating.bounding[votes.annotator[some]] * (R[votes.model_a[some]] - R[votes.model_b[some]])
    loss: Floats = -W * log_expit(x) - (1.0 - W) * log_expit(-x)
    return loss


def choose_portfolio(found: Categories, categories: Sequence[int], margin: float) -> Portfolio:
    """Choose the fewest models of which one is within a margin of the best in each category.

    How far model i is below the best of a category is at most max_j (S_j − S_i + half the width of its interval). Of n
    models and m categories the m (n − 1) bounds on the true best hold together with the settings' confidence
    (Bonferroni), whichever model is the best; so the models may be chosen by them.

    Parameters
    ----------
    categories : which of them the models are to serve
    margin : Elo points, above 0

    Raises
    ------
    VotesError
        The rating has no intervals.

    Notes
    -----
    A set cover, exact by integer programming; of sets of one size that with the lowest bounds, about. Models outside
    the group with most votes are left out.

    References
    ----------
    Moondra, Chughtai, Lanka and Gupta, arXiv 2605.06656 (2026), for portfolios; Hsu, Annals of Statistics 1981, for the
    bounds.
    """
    whole, spread = found.whole, _covariance(found.whole)
    models = whole.small.models[whole.components.label[whole.small.models] == 0]
    at = find_places(whole.small.models, whole.cells.n_models)[models]
    behind, bound = np.zeros((2, len(categories), len(models)))
    level = 1.0 - 2.0 * (1.0 - whole.settings.confidence) / (len(categories) * max(len(models) - 1, 1))
    half = critical_values(spread.contrast_freedom(at[:, None], at, order=True), level)
    for place, category in enumerate(categories):
        rating = found.rating(category)
        above = rating.fit.R[at] - rating.fit.R[at][:, None]
        behind[place] = above.max(axis=1)
        bound[place] = (above + half * contrast_errors(_covariance(rating).order, at[:, None], at)).max(axis=1)
    behind, bound = ELO_PER_NATURAL * behind, ELO_PER_NATURAL * bound
    near = bound <= margin
    open_ = ~near.any(axis=1)
    chosen = np.empty(0, dtype=np.int64)
    if not open_.all():
        mean = np.minimum(bound, 2.0 * margin).mean(axis=0)
        cost = 1.0 + SMALL * mean / mean.sum()
        cover = LinearConstraint(near[~open_].astype(float), lb=1.0)
        solved = milp(
            cost, constraints=cover, integrality=np.ones(len(models), dtype=np.int64), bounds=Bounds(0.0, 1.0)
        )
        chosen = np.flatnonzero(np.rint(np.asarray(solved.x)))
    best = chosen[np.argmin(bound[:, chosen], axis=1)] if len(chosen) else np.zeros(len(categories), dtype=np.int64)
    rows = np.arange(len(categories))
    figures = (np.where(open_, np.nan, each[rows, best]) for each in (behind, bound))
    return Portfolio(models[chosen], np.where(open_, -1, models[best]), *figures)


def _covariance(rating: Rating) -> Covariance:
    if rating.covariance is None:
        raise VotesError("a portfolio needs intervals")
    return rating.covariance
