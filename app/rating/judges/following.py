"""How well each judge follows the people: ability and lean at the people's scores, which are uncertain themselves."""

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from scipy.sparse import csr_array

from app.rating.arrays import Floats, Indices, Mask, sum_by
from app.rating.detection.habits import ABILITY, KNOWN, LEAN
from app.rating.fit.likelihood import laplacian
from app.rating.judges.ballots import Ballots
from app.rating.judges.leaning import find_own_habits, tell_leans
from app.rating.judges.people import PeoplesScores
from app.rating.uncertainty.covariance import NORMAL, TINY

ROUNDS = 4  # of the abilities that flatten uncertain differences: the last moves them by less than .1 %
FITTED = 2.0  # ability and lean, of the models' degrees of freedom
TASTE_ROUNDS = 2  # tastes flatten the odds as uncertain scores do: the second knows them
TASTE = 7  # its place among the figures
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
    size, place = len(ballots.votes.annotators), np.full(len(ballots.votes.models), -1)
    place[known.models] = np.arange(len(known.models))
    kept = ballots.where((place[ballots.votes.model_a] >= 0) & (place[ballots.votes.model_b] >= 0))
    sided, score = kept.sided(), np.zeros(len(place))
    score[known.models] = known.score
    told = tell_leans(sided)
    variance = np.diag(known.covariance)
    spread = variance[:, None] + variance - 2.0 * known.covariance
    at, H = np.tile([1.0, 0.0, 0.0], (size, 1)), np.zeros((size, 3, 3))
    cells = sided.cells
    d, doubt = score[cells.model_a] - score[cells.model_b], spread[place[cells.model_a], place[cells.model_b]]
    found, side = np.full((10, size), np.nan), sided.side * told[cells.annotator]
    families = np.zeros((size, len(known.models))) if own_family is None else own_family[:, known.models].astype(float)
    for _ in range(TASTE_ROUNDS):
        taste = np.nan_to_num(found[TASTE]) ** 2
        for _ in range(ROUNDS):
            flat = flatten(at[cells.annotator, ABILITY] ** 2 * doubt + 2.0 * taste[cells.annotator])
            H = find_own_habits(sided, flat * d, flat * side, at, free_ability=True)
        for k in np.flatnonzero(np.diff(cells.starts)):
            doubts = at[k, ABILITY] ** 2 * spread + 2.0 * taste[k]
            judge = _Judge.of(kept, int(k), place, known, flatten(doubts), at[k], H[k], leans=bool(told[k]))
            found[:, k] = judge.figures(known, families[k])
    found[3:5, ~told] = np.nan
    return Followers(cells.votes_by_annotator(), *found)


def flatten(variance: Floats) -> Floats:
    """Return c with E σ(x) ≈ σ(c E x), x normal with this variance."""
    flat: Floats = 1.0 / np.sqrt(1.0 + FLATTEN * variance)
    return flat


class _Judge(NamedTuple):
    """One judge's votes at the maximum, as sums over battles.

    Attributes
    ----------
    at : ability and lean
    bread : H⁻¹, shape (2, 2)
    mixed : Σ w h (e_left − e_right)ᵀ, h the derivatives of the log odds by ability and lean, shape (2, n_models)
    information : Σ w (e_left − e_right)(e_left − e_right)ᵀ, shape (n_models, n_models)
    gradient : Σ of each battle's gradient by the scores, shape (n_models,)
    noise : Σ g gᵀ over battles, g the gradient by ability, lean and scores, shape (2 + n_models,) twice
    """

    at: Floats
    bread: Floats
    mixed: Floats
    information: Floats
    gradient: Floats
    noise: Floats

    @classmethod
    def of(
        cls, ballots: Ballots, k: int, place: Indices, known: PeoplesScores, flats: Floats, at: Floats, H: Floats,
        *, leans: bool,
    ) -> "_Judge":  # fmt: skip
        """Sum a judge's votes."""
        one, size = ballots.where(ballots.votes.annotator == k), len(known.models)
        v, number = one.votes, one.ballot
        left, right = place[v.model_a], place[v.model_b]
        flat = flats[left, right]
        h = np.stack([flat * (known.score[left] - known.score[right]), flat * leans])
        p = 1.0 / (1.0 + np.exp(-(at[ABILITY] * h[0] + at[LEAN] * h[1])))
        w, rest = one.weight * p * (1.0 - p), one.weight * (v.outcome - p)
        mixed = np.stack([sum_by(left, w * flat * x, size) - sum_by(right, w * flat * x, size) for x in h])
        information = laplacian(sum_by(left * size + right, w * flat**2, size * size), size)
        columns = np.concatenate([np.zeros(len(left), int), np.ones(len(left), int), 2 + left, 2 + right])
        entries = np.concatenate([rest * h[0], rest * h[1], rest * flat, -rest * flat])
        by_battle = csr_array((entries, (np.tile(number, 4), columns)), shape=(int(number.max()) + 1, 2 + size))
        kept = [ABILITY, LEAN]
        bread: Floats = np.linalg.inv(H[np.ix_(kept, kept)]).astype(np.float64)
        gradient: Floats = np.asarray(by_battle.sum(axis=0), dtype=np.float64)[2:]
        return cls(at[kept], bread, mixed, information, gradient, (by_battle.T @ by_battle).toarray())

    def figures(self, known: PeoplesScores, family: Floats) -> tuple[float, ...]:
        """Return the figures of `Followers` but for the votes; `family` is 1 for models of the judge's own.

        The preference is a Newton step from none, beside ability and lean.
        """
        ability, size = self.at[ABILITY], len(known.models)
        moves = self.bread @ self.mixed  # what a shift of a model's score moves ability and lean by, with a = 1
        of_people = ability**2 * moves @ known.covariance @ moves.T
        of_people[0, 0] += (ability * known.scale_se) ** 2
        left = self.information - self.mixed.T @ moves
        profile = np.hstack([-moves.T, np.eye(size)])
        noise = profile @ self.noise @ profile.T + ability**2 * left @ known.covariance @ left
        excess = float(self.gradient @ self.gradient) - float(np.trace(noise))
        taste = max(excess, 0.0) / max(float((left**2).sum()), TINY)
        own, tastes = self.bread @ self.noise[:2, :2] @ self.bread, taste * moves @ moves.T
        parts = np.stack([np.diag(x) for x in (own, of_people, tastes)])
        told = float(family @ left @ family)
        preference = preference_se = np.nan
        if told > KNOWN:
            preference = float(family @ self.gradient) / told
            preference_se = np.sqrt(family @ (noise + taste * left @ left) @ family) / told
        variance = parts.sum(axis=0)
        known_to = np.array([np.inf, known.freedom, max(size - FITTED, 1.0)])
        freedom = 1.0 / np.maximum(
            ((parts / np.maximum(variance, TINY)) ** 2 / known_to[:, None]).sum(axis=0), 1.0 / NORMAL
        )
        (ability_se, lean_se), people_se = np.sqrt(variance), np.sqrt(parts[1, 0])
        found = (
            ability,
            ability_se,
            people_se,
            self.at[1],
            lean_se,
            *freedom,
            np.sqrt(taste),
            preference,
            preference_se,
        )
        return tuple(float(x) for x in found)
