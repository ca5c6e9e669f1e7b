"""How well each judge follows the people: ability and lean at the people's scores, which are uncertain themselves."""

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from scipy.sparse import csr_array

from app.rating.arrays import Floats, Indices, Mask, sum_by
from app.rating.detection.habits import ABILITY, KNOWN, LEAN, OUTLIER_SD
from app.rating.fit.likelihood import laplacian
from app.rating.judges.ballots import Ballots
from app.rating.judges.leaning import ABILITY_SD, find_own_habits, tell_leans
from app.rating.judges.people import PeoplesScores
from app.rating.uncertainty.covariance import NORMAL, TINY

ROUNDS = 4  # of the abilities that flatten uncertain differences: the last moves them by less than .1 %
FITTED = 2.0  # ability and lean, of the models' degrees of freedom
TASTE_ROUNDS = 2  # tastes flatten the odds as uncertain scores do: the second knows them
TASTE = 7  # its place among the figures
FEWEST = 20  # votes from which a judge's liking for a style is looked for
LIKING_ROUNDS = 8  # of Newton, from no liking
FLATTEN = np.pi / 8.0  # σ averaged over N(x, v) is about σ(x/√(1 + π v/8))


@dataclass(frozen=True)
class Followers:
    """How judges follow the people, arrays of shape (n_annotators,); NaN for those without a vote on scored models.

    Attributes
    ----------
    votes : on models with a score, copies of a battle counted once
    ability, ability_se : 1 is the people's mean annotator; the error has the judge's votes, the judge's tastes and the
        people's scores in it
    people_se : the part of the error that is the people's
    lean, lean_se : log odds for the left; NaN also where the votes do not tell a lean
    freedom, lean_freedom : degrees of freedom of the two errors: people and models are few
    taste_sd : of an own opinion of each model, log odds
    preference, preference_se : log odds that the judge's own family has against others, beside the people's scores; NaN
        without votes between a model of the family and another
    """

    votes: Floats
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

    @classmethod
    def unknown(cls, lean: Floats, lean_se: Floats) -> Self:
        """Return what is known of judges beside people whose order is not: their leans."""
        none, known = np.full(len(lean), np.nan), np.full(len(lean), np.inf)
        return cls(none, none, none, none, lean, lean_se, known, known, none, none, none)


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
    size, place = len(ballots.votes.annotators), known.places(len(ballots.votes.models))
    kept = ballots.where((place[ballots.votes.model_a] >= 0) & (place[ballots.votes.model_b] >= 0))
    sided, score = kept.sided(), np.zeros(len(place))
    score[known.models] = known.score
    told, spread = tell_leans(sided), known.doubt()
    at, cells = np.tile([1.0, 0.0, 0.0], (size, 1)), sided.cells
    d, doubt = score[cells.model_a] - score[cells.model_b], spread[place[cells.model_a], place[cells.model_b]]
    found, side = np.full((10, size), np.nan), sided.side * told[cells.annotator]
    families = np.zeros((size, len(known.models))) if own_family is None else own_family[:, known.models].astype(float)
    for _ in range(TASTE_ROUNDS):
        taste = np.nan_to_num(found[TASTE]) ** 2
        for _ in range(ROUNDS):
            flat = flatten(at[cells.annotator, ABILITY] ** 2 * doubt + 2.0 * taste[cells.annotator])
            find_own_habits(sided, flat * d, flat * side, at, free_ability=True)
        for k in np.flatnonzero(np.diff(cells.starts)):
            flats, one = flatten(at[k, ABILITY] ** 2 * spread + 2.0 * taste[k]), kept.where(kept.votes.annotator == k)
            judge = _Judge.of(one, place, known, flats, at[k, [ABILITY, LEAN]], leans=bool(told[k]))
            found[:, k] = judge.figures(known, families[k])
    found[3:5, ~told] = np.nan
    return Followers(cells.votes_by_annotator(), *found)


def flatten(variance: Floats) -> Floats:
    """Return c with E σ(x) ≈ σ(c E x), x normal with this variance."""
    flat: Floats = 1.0 / np.sqrt(1.0 + FLATTEN * variance)
    return flat


def find_liking(ballots: Ballots, known: PeoplesScores, taste_sd: Floats, style: Floats) -> tuple[Floats, Floats]:
    """Maximise every judge's ℓ_k(a, λ, b), P(left wins) = σ(a_k (S_left − S_right) + λ_k + xᵀb_k), as `follow_people`.

    Parameters
    ----------
    taste_sd : as in `Followers`
    style : x of each vote, NaN where the vote has no measures, shape (n_votes, n_features)

    Returns
    -------
    b and its error, log odds; NaN for a judge with fewer than 20 such votes, shape (n_annotators, n_features) each
    """
    place, doubt = known.places(len(ballots.votes.models)), known.doubt()
    measured = (
        (place[ballots.votes.model_a] >= 0) & (place[ballots.votes.model_b] >= 0) & np.isfinite(style).all(axis=1)
    )
    kept, x = ballots.where(measured), style[measured]
    told, found = tell_leans(kept.sided()), np.full((2, len(ballots.votes.annotators), x.shape[1]), np.nan)
    for k in np.flatnonzero(np.bincount(kept.votes.annotator, minlength=len(told)) >= FEWEST):
        here, taste, at = kept.votes.annotator == k, float(np.nan_to_num(taste_sd[k])) ** 2, np.eye(2 + x.shape[1])[0]
        one = kept.where(here)
        for _ in range(LIKING_ROUNDS):
            flats = flatten(at[0] ** 2 * doubt + 2.0 * taste)
            judge = _Judge.of(one, place, known, flats, at, leans=bool(told[k]), style=x[here])
            at = at + judge.step()
        found[:, k] = at[2:], np.sqrt(judge.errors(known, taste).sum(axis=0))[2:]
    return found[0], found[1]


class _Judge(NamedTuple):
    """One judge's votes at the maximum, as sums over battles.

    Attributes
    ----------
    at : ability, lean, and what each feature of style is worth
    bread : H⁻¹, priors in it, shape (n_own, n_own)
    mixed : Σ w h (e_left − e_right)ᵀ, h the derivatives of the log odds by `at`, shape (n_own, n_models)
    information : Σ w (e_left − e_right)(e_left − e_right)ᵀ, shape (n_models, n_models)
    gradient : Σ of each battle's gradient by `at` and by the scores, shape (n_own + n_models,)
    noise : Σ g gᵀ over battles, g this gradient of one
    """

    at: Floats
    bread: Floats
    mixed: Floats
    information: Floats
    gradient: Floats
    noise: Floats

    @classmethod
    def of(
        cls, one: Ballots, place: Indices, known: PeoplesScores, flats: Floats, at: Floats, *, leans: bool,
        style: Floats | None = None,
    ) -> "_Judge":  # fmt: skip
        """Sum a judge's votes; `style` are the features of each, shape (n_votes, n_features)."""
        v, number, size = one.votes, one.ballot, len(known.models)
        left, right = place[v.model_a], place[v.model_b]
        flat = flats[left, right]
        own = [
            known.score[left] - known.score[right],
            np.full(len(left), float(leans)),
            *(() if style is None else style.T),
        ]
        h = flat * np.stack(own)
        p = 1.0 / (1.0 + np.exp(-(at @ h)))
        w, rest = one.weight * p * (1.0 - p), one.weight * (v.outcome - p)
        mixed = np.stack([sum_by(left, w * flat * x, size) - sum_by(right, w * flat * x, size) for x in h])
        information = laplacian(sum_by(left * size + right, w * flat**2, size * size), size)
        columns = np.concatenate([np.repeat(np.arange(len(h)), len(left)), len(h) + left, len(h) + right])
        entries = np.concatenate([(rest * h).ravel(), rest * flat, -rest * flat])
        shape = int(number.max()) + 1, len(h) + size
        by_battle = csr_array((entries, (np.tile(number, len(h) + 2), columns)), shape=shape)
        bread: Floats = np.linalg.inv((w * h) @ h.T + np.diag(_precision(at))).astype(np.float64)
        gradient: Floats = np.asarray(by_battle.sum(axis=0), dtype=np.float64)
        return cls(at, bread, mixed, information, gradient, (by_battle.T @ by_battle).toarray())

    def step(self) -> Floats:
        """Return Newton's step from `at`."""
        mean = np.eye(len(self.at))[0]
        step: Floats = self.bread @ (self.gradient[: len(self.at)] - _precision(self.at) * (self.at - mean))
        return step

    def errors(self, known: PeoplesScores, taste: float) -> Floats:
        """Return the variance of `at` by cause, shape (3, n_own): the judge's battles, the people's scores, tastes."""
        ability, own = self.at[0], len(self.at)
        moves = self.bread @ self.mixed  # what a shift of a model's score moves `at` by, with a = 1
        of_people = ability**2 * moves @ known.covariance @ moves.T
        of_people[0, 0] += (ability * known.scale_se) ** 2
        of_battles, tastes = self.bread @ self.noise[:own, :own] @ self.bread, taste * moves @ moves.T
        return np.stack([np.diag(x) for x in (of_battles, of_people, tastes)])

    def figures(self, known: PeoplesScores, family: Floats) -> tuple[float, ...]:
        """Return the figures of `Followers` but for the votes; `family` is 1 for models of the judge's own.

        The preference is a Newton step from none, beside ability and lean.
        """
        ability, size, gradient = self.at[0], len(known.models), self.gradient[len(self.at) :]
        moves = self.bread @ self.mixed
        left = self.information - self.mixed.T @ moves
        profile = np.hstack([-moves.T, np.eye(size)])
        noise = profile @ self.noise @ profile.T + ability**2 * left @ known.covariance @ left
        excess = float(gradient @ gradient) - float(np.trace(noise))
        taste = max(excess, 0.0) / max(float((left**2).sum()), TINY)
        parts = self.errors(known, taste)
        told = float(family @ left @ family)
        preference = preference_se = np.nan
        if told > KNOWN:
            preference = float(family @ gradient) / told
            preference_se = np.sqrt(family @ (noise + taste * left @ left) @ family) / told
        variance = parts.sum(axis=0)
        known_to = np.array([np.inf, known.freedom, max(size - FITTED, 1.0)])
        freedom = 1.0 / np.maximum(
            ((parts / np.maximum(variance, TINY)) ** 2 / known_to[:, None]).sum(axis=0), 1.0 / NORMAL
        )
        (ability_se, lean_se), people_se = np.sqrt(variance), np.sqrt(parts[1, 0])
        found = (
            ability, ability_se, people_se, self.at[1], lean_se, *freedom, np.sqrt(taste), preference, preference_se,
        )  # fmt: skip
        return tuple(float(x) for x in found)


def _precision(at: Floats) -> Floats:
    """Return the priors' precisions."""
    precision = np.full(len(at), OUTLIER_SD**-2)
    precision[0] = ABILITY_SD**-2
    return precision
