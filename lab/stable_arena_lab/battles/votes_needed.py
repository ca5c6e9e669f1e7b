"""How many votes an arena needs until its ranking is right, and its first models decided, under each policy."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit, ndtr
from scipy.stats import rankdata

from app.rating.arrays import Floats
from app.rating.sampling.pair_weights import pair_positions
from app.rating.sampling.policies import POLICIES, Weigh, draw_top_k, mix_pairs, mixed
from app.rating.sampling.scored_models import ScoredModels
from app.rating.threads import one_blas_thread
from app.rating.units import ELO_PER_NATURAL
from stable_arena_lab.battles.pooled_arena import PooledArena
from stable_arena_lab.parallel import Progress, map_seeds

COVAL_POINTS = 300.0


def coval(R: Floats, covariance: Floats, _pair_votes: Floats, _k: int) -> Floats:
    """Prefer close pairs with wide intervals, as coval does: exp(−gap/300)·(ci_i + ci_j), gap in Elo points."""
    error = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    gap = ELO_PER_NATURAL * np.abs(R[:, None] - R[None, :])
    weights: Floats = np.exp(-gap / COVAL_POINTS) * (error[:, None] + error[None, :])
    np.fill_diagonal(weights, 0.0)
    return weights


def _mixed(R: Floats, covariance: Floats, _pair_votes: Floats, k: int, *, share: float) -> Floats:
    return mixed(R, covariance, k, top_k_share=share)


COMPARED: Mapping[str, Weigh] = {
    **{str(name): weigh for name, weigh in POLICIES.items()},
    "coval": coval,
    "mixed, 30 % top_k": partial(_mixed, share=0.3),
    "mixed, 70 % top_k": partial(_mixed, share=0.7),
}


FIRST_VOTES = 5  # for each model, before the first refit; on uniform pairs
GROWTH = 1.1  # of the votes from one refit to the next
PRIOR_SD = 3.0  # natural units, of the scores: it keeps the first fits finite
DECREMENT = 1e-8
MOST_VOTES = 1e10
CORRELATION, CONFIDENCE = 0.95, 0.95
DRAWS = 2_048  # of all scores together, by which the first k are decided
SURE = 8  # refits in a row, in which the votes double, after which an answer is taken to stay


@dataclass(frozen=True)
class VotesNeeded:
    """One arena under one policy.

    Attributes
    ----------
    ranking : votes from which the rank correlation (Spearman) with the truth stays above .95
    top : votes from which the first k stay decided: they are the true first k with a probability of .95, by the scores'
        joint covariance
    wrong : whether they are others than the true first k
    """

    policy: str
    models: int
    seed: int
    ranking: float
    top: float
    wrong: bool


@dataclass
class _Tally:
    """The votes so far, and the scores fitted to them."""

    battles: Floats
    wins: Floats
    ties: Floats
    R: Floats

    def add(self, arena: PooledArena, battles: Floats, generator: np.random.Generator) -> None:
        """Hold battles, those of the pairs i < j, and count the votes."""
        wins, ties = arena.vote(battles, generator)
        self.battles += battles + battles.T
        self.wins += wins
        self.ties += ties

    def fit(self) -> Floats:
        """Fit Bradley-Terry from the last scores, and return the covariance, widened by the votes' dispersion."""
        score = (self.wins + self.ties / 2.0).sum(axis=1)
        while True:
            p = expit(self.R[:, None] - self.R[None, :])
            gradient = score - (self.battles * p).sum(axis=1) - self.R / PRIOR_SD**2
            information = -self.battles * p * (1.0 - p)
            np.fill_diagonal(information, 1.0 / PRIOR_SD**2 - information.sum(axis=1))
            factor = cho_factor(information, lower=True)
            step = cho_solve(factor, gradient)
            self.R = self.R + step * min(1.0, 2.0 / max(float(np.abs(step).max()), 1e-12))
            if float(step @ gradient) < DECREMENT:
                break
        covariance: Floats = cho_solve(factor, np.eye(len(self.R)))
        return covariance * self._dispersion(p)

    def _dispersion(self, p: Floats) -> float:
        """Return the variance of the votes relative to a Bernoulli vote's: below 1 where there are ties."""
        square = self.wins * (1.0 - p) ** 2 + self.ties * (0.5 - p) ** 2
        square += (self.battles - self.wins - self.ties) * p**2
        return float(square.sum() / (self.battles * p * (1.0 - p)).sum())


@one_blas_thread()
def count_votes(arena: PooledArena, policy: str, *, seed: int, k: int = 3, floor: float = 0.1) -> VotesNeeded:
    """Let an arena run under a policy until both questions are answered.

    A refit follows whenever the votes have grown by a tenth; then the pairs' probabilities are computed anew.

    Parameters
    ----------
    policy : of `COMPARED`
    k : how many models are to be decided, and what "top_k" is asked for
    """
    size, generator = len(arena.score), np.random.default_rng(seed)
    pair, identities = pair_positions(size), np.arange(size)
    battles, wins, ties = np.zeros((3, size, size))
    tally = _Tally(battles, wins, ties, np.zeros(size))
    truth, best = rankdata(arena.score), set(np.argsort(-arena.score)[:k].tolist())
    probability = np.full(len(pair[0]), 1.0 / len(pair[0]))
    votes, batch = [0.0], FIRST_VOTES * size
    answers: list[tuple[bool, bool]] = []  # after each refit: whether the ranking is right, and the first k decided
    while (len(answers) < SURE or not np.all(answers[-SURE:])) and votes[-1] < MOST_VOTES:
        new = np.zeros((size, size))
        new[pair] = generator.multinomial(int(batch), probability)
        tally.add(arena, new, generator)
        covariance = tally.fit()
        votes.append(votes[-1] + batch)
        right = float(np.corrcoef(rankdata(tally.R), truth)[0, 1]) > CORRELATION
        answers.append((right, _probability_of_leaders(tally.R, covariance, k) >= CONFIDENCE))
        known = ScoredModels(np.ones(size, dtype=np.bool_), tally.R, covariance, tally.battles)
        weight = mix_pairs(known, identities, COMPARED[policy], floor, k).weight.astype(np.float64)
        probability = weight / weight.sum()
        batch = max(round((GROWTH - 1.0) * votes[-1]), 1)
    last = [int(np.flatnonzero([True, *np.logical_not(holds)])[-1]) for holds in zip(*answers, strict=True)]
    ranked, decided = (min([*votes[1:], MOST_VOTES][refits], MOST_VOTES) for refits in last)
    return VotesNeeded(policy, size, seed, ranked, decided, set(np.argsort(-tally.R)[:k].tolist()) != best)


def _probability_of_leaders(R: Floats, covariance: Floats, k: int) -> float:
    """Return the probability that the first k by R are the true first k; a bound where that is below `CONFIDENCE`."""
    order = np.argsort(-R)
    last, next_ = order[k - 1], order[k]
    variance = covariance[last, last] + covariance[next_, next_] - 2.0 * covariance[last, next_]
    most = float(ndtr((R[last] - R[next_]) / np.sqrt(variance)))  # that only these two are in order
    if most < CONFIDENCE:
        return most
    contenders, inside = draw_top_k(R, covariance, k, draws=DRAWS)
    return float(inside[:, np.isin(contenders, order[:k])].all(axis=1).mean())


BASELINE = "uniform"


@dataclass(frozen=True)
class PolicyRow:
    """One policy over the arenas: medians, and quartiles of the ratios to uniform pairs in the same arena.

    Attributes
    ----------
    ranking, top : votes until the ranking is right, and until the first models are decided (`VotesNeeded`)
    ranking_ratio, top_ratio : median of the votes relative to uniform's
    ranking_low, ranking_high, top_low, top_high : its quartiles
    wrong : share of the arenas in which others than the true first models were decided
    """

    policy: str
    models: int
    arenas: int
    ranking: float
    ranking_ratio: float
    ranking_low: float
    ranking_high: float
    top: float
    top_ratio: float
    top_low: float
    top_high: float
    wrong: float


def compare_policies(
    arena: Callable[[int], PooledArena],
    *,
    seeds: Sequence[int],
    policies: Sequence[str] = tuple(COMPARED),
    k: int = 3,
    floor: float = 0.1,
    processes: int = 1,
    progress: Progress | None = None,
) -> list[PolicyRow]:
    """Run the arena of each seed under every policy, uniform pairs always among them.

    Parameters
    ----------
    arena : returns the arena of a seed; other processes can call it
    """
    names = tuple(dict.fromkeys((BASELINE, *policies)))
    work = partial(_run, arena=arena, policies=names, k=k, floor=floor)
    return summarise([row for rows in map_seeds(work, seeds, processes=processes, progress=progress) for row in rows])


def summarise(found: Sequence[VotesNeeded]) -> list[PolicyRow]:
    """Return one row a policy, in the order in which they come; all of the same seeds."""
    votes = {
        name: np.array([(row.ranking, row.top, row.wrong) for row in found if row.policy == name]).T
        for name in dict.fromkeys(row.policy for row in found)
    }
    rows = []
    for name, (ranking, top, wrong) in votes.items():
        r, t = (_quartiles(own / base) for own, base in zip((ranking, top), votes[BASELINE][:2], strict=True))
        rows.append(
            PolicyRow(
                name, found[0].models, len(ranking), float(np.median(ranking)), r[1], r[0], r[2],
                float(np.median(top)), t[1], t[0], t[2], float(wrong.mean()),
            )
        )  # fmt: skip
    return rows


def _run(
    seed: int, *, arena: Callable[[int], PooledArena], policies: Sequence[str], k: int, floor: float
) -> list[VotesNeeded]:
    made = arena(seed)
    return [count_votes(made, policy, seed=seed, k=k, floor=floor) for policy in policies]


def _quartiles(ratio: Floats) -> tuple[float, float, float]:
    low, median, high = np.quantile(ratio, (0.25, 0.5, 0.75)).tolist()
    return low, median, high
