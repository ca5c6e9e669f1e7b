"""Published and simple tests, for comparison with ours."""

import numpy as np
from scipy.special import expit, gammaincinv, ndtr

from app.rating.arrays import Floats, Indices, Mask, sum_by_key
from app.rating.compiled import compiled
from app.rating.votes.cells import Cells
from stable_arena_lab.attacks.arena import Votes
from stable_arena_lab.defences.discoveries import discover_by_p

CHECKPOINTS, LATEST = 5, 100


def sequential_test(votes: Votes, alpha: float, generator: np.random.Generator) -> Mask:
    """Compare each vote with the earlier ones on its pair: Chatbot Arena's test for anomalous users.

    p_i = (1 + #{h ≥ H_i}) / (n + 1) over the n earlier votes on the pair; an annotator is flagged if
    −2 Σ_{i ≤ j} ln p_i ≥ χ²_{2j, 1 − α/5} at one of five random j.

    References
    ----------
    Chiang et al., Chatbot Arena, ICML 2024, §5.3.
    """
    order = np.argsort(votes.time)
    left, right = votes.left[order], votes.right[order]
    W = np.where(left < right, votes.outcome[order], 1.0 - votes.outcome[order])
    pair = np.minimum(left, right) * votes.n_models + np.maximum(left, right)
    p = np.empty(len(order))
    _against_history(pair, np.rint(2.0 * W).astype(np.int64), votes.n_models**2, p)
    turn, annotator = votes.turn()[order], votes.annotator[order]
    marked = np.zeros(votes.n_annotators, dtype=bool)
    total = -2.0 * np.log(p)
    cast = np.bincount(annotator, minlength=votes.n_annotators)
    last = np.maximum(1, np.minimum(cast, LATEST))
    for _ in range(CHECKPOINTS):
        checkpoint = 1 + (generator.random(votes.n_annotators) * last).astype(np.int64)
        counted = turn < checkpoint[annotator]
        statistic = np.bincount(annotator, total * counted, votes.n_annotators)
        marked |= (cast > 0) & (statistic >= 2.0 * gammaincinv(checkpoint, 1.0 - alpha / CHECKPOINTS))
    return marked


@compiled
def _against_history(pair: Indices, code: Indices, size: int, p: Floats) -> None:
    seen = np.zeros((size, 3))
    for i in range(len(pair)):
        history = seen[pair[i]]
        above = 0.0
        for other in range(code[i], 3):
            above += history[other]
        p[i] = (1.0 + above) / (1.0 + history.sum())
        history[code[i]] += 1.0


def residual_test(cells: Cells, R: Floats, ability: Floats, rate: float, *, dependent: bool = False) -> Mask:
    """Flag annotators whose votes on a model are too good or too bad for it, by a normal approximation.

    z_kj = Σ (W − p) / √Σ p(1 − p) over the annotator's votes on the model, two-sided, with a controlled false discovery
    rate over annotators × models (Benjamini-Hochberg, or Benjamini-Yekutieli where `dependent`).
    """
    p = expit(ability[cells.annotator] * (R[cells.model_a] - R[cells.model_b]))
    surplus, variance = cells.s - cells.n * p, cells.n * p * (1.0 - p)
    owner = cells.annotator.astype(np.int64) * cells.n_models
    key = np.concatenate([owner + cells.model_a, owner + cells.model_b])
    both = (np.concatenate([surplus, -surplus]), np.tile(variance, 2))
    met, (total, spread) = sum_by_key(key, cells.n_annotators * cells.n_models, *both)
    found = discover_by_p(2.0 * ndtr(-np.abs(total) / np.sqrt(np.maximum(spread, 1e-12))), rate, dependent=dependent)
    marked = np.zeros(cells.n_annotators, dtype=bool)
    marked[met[found] // cells.n_models] = True
    return marked
