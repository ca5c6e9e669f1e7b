"""How well each judge follows the people: ability and lean at the uncertain scores of their leaderboard."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
from scipy.sparse import csr_array, hstack

from app.rating.arrays import Floats, Mask
from app.rating.judges.ballots import Ballots
from app.rating.judges.leaning import WIDE, OwnVotes, identified_leans, maximise, own_columns, score_columns
from app.rating.judges.peoples_scores import PeoplesScores
from app.rating.uncertainty.covariance import TINY
from app.rating.uncertainty.freedom import NORMAL
from app.rating.votes.cells import find_places
from app.rating.votes.features import features_of

ABILITY, LEAN = 0, 1  # places among a judge's own terms
ROUNDS = 4  # of the abilities that flatten uncertain differences: the last moves them by less than .1 %
KNOWN = 1e-3  # information below which the votes say nothing
FITTED = 2.0  # ability and lean, of the models' degrees of freedom
TASTE_ROUNDS = 2  # tastes flatten the odds as uncertain scores do: the second knows them
FIGURES, TASTE = 11, 7  # of a judge, and the place of its taste among them
MEASURED = 20  # votes from which a judge's liking for a style is looked for
FLATTEN = np.pi / 8.0  # σ averaged over N(x, v) is about σ(x/√(1 + π v/8))


class OwnFamily(NamedTuple):
    """What a judge's own family has against others beside given scores, arrays of shape (n_annotators,).

    Attributes
    ----------
    preference : log odds; NaN without votes between a model of the family and another, or without scores
    se, freedom : its error, and the degrees of freedom of that
    """

    preference: Floats
    se: Floats
    freedom: Floats


@dataclass(frozen=True)
class Followers:
    """How judges follow the people, arrays of shape (n_annotators,); NaN for those without a vote on scored models.

    Attributes
    ----------
    ability, ability_se : 1 is the people's mean annotator; the error has the judge's votes, the judge's tastes and the
        people's scores in it
    people_se : the part of the error that is the people's
    lean, lean_se : log odds for the left; NaN also where the votes do not tell a lean
    freedom, lean_freedom : degrees of freedom of the two errors: people and models are few
    taste_sd : of an own opinion of each model, log odds
    preference, preference_se, preference_freedom : `own_family`, beside the people's scores
    """

    ability: Floats
    ability_se: Floats
    people_se: Floats
    lean: Floats
    lean_se: Floats
    freedom: Floats
    lean_freedom: Floats
    taste_sd: Floats
    preference: Floats
    preference_se: Floats
    preference_freedom: Floats

    @property
    def own_family(self) -> OwnFamily:
        """What each judge's own family has against others."""
        return OwnFamily(self.preference, self.preference_se, self.preference_freedom)

    @classmethod
    def unknown(cls, lean: Floats, lean_se: Floats) -> Self:
        """Return what is known of judges beside people whose order is not: their leans."""
        none, known = np.full(len(lean), np.nan), np.full(len(lean), np.inf)
        return cls(none, none, none, lean, lean_se, known, known, none, none, none, known)


def follow_people(ballots: Ballots, known: PeoplesScores, own_family: Mask | None = None) -> Followers:
    """Maximise every judge's ℓ_k(a, λ), P(left wins) = σ(a_k (S_left − S_right) + λ_k), at the people's scores.

    Priors are N(1, 3²) for a, N(0, 3²) for λ. A judge is a shadow here: it moves no score.

    Parameters
    ----------
    ballots : of the judges
    known : the people's scores; each difference is taken at its mean, and flattened by its variance and that of tastes
    own_family : models of each annotator's own family, shape (n_annotators, n_models); default none

    Notes
    -----
    The error of (a, λ) is H⁻¹ M H⁻¹, M by battles, so that a copy with the sides exchanged is no second vote; and K (a²
    V + τ² I) Kᵀ, K what a judge's own shift of a model moves (a, λ) by, V the covariance of the people's scores, τ² the
    judge's tastes: what the gradients by model vary by beyond all that, by moments.
    """
    found, search = (
        np.full((FIGURES, len(ballots.votes.annotators)), np.nan),
        _JudgeSearch(replace(ballots, style=None), known),
    )
    own = np.zeros((found.shape[1], len(known.models))) if own_family is None else own_family[:, known.models] * 1.0
    for _ in range(TASTE_ROUNDS):
        for k, votes in search.judges(np.nan_to_num(found[TASTE]) ** 2):
            found[:, k] = _figures(votes, search.at[k], known, own[k])
    found[3:5, ~search.identified[:, 0]] = np.nan
    return Followers(*found)


def flatten(variance: Floats) -> Floats:
    """Return c with E σ(x) ≈ σ(c E x), x normal with this variance."""
    flat: Floats = 1.0 / np.sqrt(1.0 + FLATTEN * variance)
    return flat


def find_liking(ballots: Ballots, known: PeoplesScores, taste_sd: Floats) -> tuple[Floats, Floats]:
    """Maximise every judge's ℓ_k(a, λ, b), P(left wins) = σ(a_k (S_left − S_right) + λ_k + xᵀb_k), as `follow_people`.

    Parameters
    ----------
    ballots : with the style x; votes without all measures do not count
    taste_sd : as in `Followers`

    Returns
    -------
    b and its error, log odds; NaN for a judge with fewer than 20 such votes, or whose votes do not tell b, shape
    (n_annotators, n_features) each
    """
    if ballots.style is None:
        raise ValueError("the ballots have no style")
    measured = np.asarray(np.isfinite(ballots.style.values).all(axis=1))
    tastes = np.nan_to_num(taste_sd) ** 2
    search = _JudgeSearch(ballots.where(measured), known)
    found = np.full((2, *search.identified.shape), np.nan)
    for k, votes in search.judges(tastes):
        if votes.number >= MEASURED:
            found[:, k] = (
                search.at[k, 1:],
                np.sqrt(_errors(votes, search.at[k, ABILITY], known, tastes[k]).sum(axis=0))[1:],
            )
    found[:, ~search.identified] = np.nan
    return found[0, :, 1:], found[1, :, 1:]


class _JudgeSearch:
    """The maxima of all judges, at the people's scores.

    Attributes
    ----------
    identified : leans that the votes determine, shape (n_annotators, 1 + n_style)
    at : ability, lean, and what each feature of style is worth
    """

    def __init__(self, ballots: Ballots, known: PeoplesScores) -> None:
        self.known, self.place = known, find_places(known.models, len(ballots.votes.models)).astype(np.int64)
        self.kept, self.doubt = ballots.between(known.models), known.doubt()
        self.cells = self.kept.featured()
        self.identified = identified_leans(self.cells)
        self.at = np.zeros((len(self.identified), 1 + self.identified.shape[1]))
        self.at[:, ABILITY] = 1.0

    def judges(self, taste: Floats) -> Iterator[tuple[int, OwnVotes]]:
        """Find the maxima, with tastes of this variance; yield every judge with votes, and these at the maximum."""
        c, a, b = self.cells, self.place[self.cells.model_a], self.place[self.cells.model_b]
        d, x = self.known.score[a] - self.known.score[b], features_of(c) * self.identified[c.annotator]
        mean, voters = np.zeros(self.at.shape), np.flatnonzero(np.diff(c.starts)).tolist()
        mean[:, ABILITY] = 1.0
        precision = np.full(mean.size, WIDE**-2)
        for _ in range(ROUNDS):
            flat = flatten(self.at[c.annotator, ABILITY] ** 2 * self.doubt[a, b] + 2.0 * taste[c.annotator])
            X = own_columns(c.annotator, flat[:, None] * np.column_stack([d, x]), len(mean))
            self.at = maximise(X, c.n, c.s, precision, mean.ravel(), mean.ravel()).reshape(mean.shape)
        battles = int(self.kept.battle.max(initial=-1)) + 1
        for k in voters:
            one = self.kept.where(self.kept.votes.annotator == k)
            left, right = self.place[one.votes.model_a], self.place[one.votes.model_b]
            flat = flatten(self.at[k, ABILITY] ** 2 * self.doubt[left, right] + 2.0 * taste[k])
            d, x = self.known.score[left] - self.known.score[right], one.differences() * self.identified[k]
            h, scores = (
                flat[:, None] * np.column_stack([d, x]),
                score_columns(left, right, flat, len(self.known.models)),
            )
            yield k, OwnVotes(one, csr_array(hstack([csr_array(h), scores])), h.shape[1], h @ self.at[k], battles)


def _errors(votes: OwnVotes, ability: float, known: PeoplesScores, taste: float) -> Floats:
    """Return the variance of `at` by cause, shape (3, n_own): the judge's battles, the people's scores, tastes.

    The prior counts beside the battles: a judge who always takes the left leaves no noise to tell an error by.
    """
    own, bread, moves = len(votes.bread), votes.bread, votes.moves
    of_people = ability**2 * moves @ known.covariance @ moves.T
    of_people[0, 0] += (ability * known.scale_se) ** 2
    of_battles, tastes = bread @ (votes.noise[:own, :own] + np.eye(own) / WIDE**2) @ bread, taste * moves @ moves.T
    return np.stack([np.diag(x) for x in (of_battles, of_people, tastes)])


def _figures(votes: OwnVotes, at: Floats, known: PeoplesScores, family: Floats) -> tuple[float, ...]:
    """Return the figures of `Followers`; `family` is 1 for models of the judge's own.

    The preference is a Newton step from none, beside ability and lean.
    """
    ability, size, left = at[ABILITY], len(known.models), votes.profile_information
    gradient, of_scores = votes.gradient[len(at) :], ability**2 * left @ known.covariance @ left
    noise = votes.profile @ votes.noise @ votes.profile.T + of_scores
    if known.shared is not None:  # the same answers, in the judge's votes and in the scores
        both = ability * votes.crossed(known.shared.by_battle) @ known.shared.moves @ left
        noise -= both + both.T

    def find_taste(kept: Floats) -> float:
        """Return τ² by moments of the gradients, of which `kept` leaves some directions."""
        excess = float(((kept @ gradient) ** 2).sum()) - float(np.trace(kept @ noise @ kept.T))
        return max(excess, 0.0) / max(float(((kept @ left) ** 2).sum()), TINY)

    taste = find_taste(np.eye(size))
    parts = _errors(votes, ability, known, taste)
    known_to = np.array([np.inf, known.freedom, max(size - FITTED, 1.0)])
    (ability_se, lean_se), people_se, own = np.sqrt(parts.sum(axis=0)), np.sqrt(parts[1, 0]), np.full(3, np.nan)
    pull = left @ family
    if (information := float(family @ pull)) > KNOWN:
        # what the preference explains is no taste
        tastes = find_taste(np.eye(size) - np.outer(pull, family) / information) * float(pull @ pull)
        total = max(float(family @ noise @ family), KNOWN * information)
        theirs = min(float(family @ of_scores @ family), total)
        by_cause = np.array([[total - theirs], [theirs], [tastes]])
        se = np.sqrt(by_cause.sum()) / information
        own[:] = family @ gradient / information, se, *_freedom(by_cause, known_to - [0.0, 0.0, 1.0])
    found = ability, ability_se, people_se, at[LEAN], lean_se, *_freedom(parts, known_to), np.sqrt(taste), *own
    return tuple(float(x) for x in found)


def _freedom(parts: Floats, known_to: Floats) -> Floats:
    """Return the degrees of freedom of sums of variances by cause, shape (3, n), each cause known to so many."""
    share = parts / np.maximum(parts.sum(axis=0), TINY)
    freedom: Floats = 1.0 / np.maximum((share**2 / np.maximum(known_to, 1.0)[:, None]).sum(axis=0), 1.0 / NORMAL)
    return freedom
