"""Compiled loops over paths of scores for `forecast`."""

import math

from app.rating.data.arrays import Floats, Indices
from app.rating.data.compiled import compiled


@compiled
def find_first_settled(
    scores: Floats, order: Indices, errors: Floats, tuned_to: float, of_order: Floats, of_equality: float,
    margin: float, first: Indices,
) -> None:  # fmt: skip
    """Set first[k − 1, path] to the first step at which each of the best k is above, or as good as, each other model.

    Parameters
    ----------
    scores, order : of every model at every step of every path, and its models best first, shape (steps, paths, n)
    errors : of the differences at every step, shape (steps, n, n)
    tuned_to, margin : of the criterion (`app.rating.decision.verdict`)
    of_order, of_equality : the costs of the two statements; of_order for each k, shape (most,)
    first : the number of steps where there is none, shape (most, paths)
    """
    steps, paths, n = scores.shape
    for path in range(paths):
        for k in range(1, first.shape[0] + 1):
            for step in range(steps):
                score, ranked, error = scores[step, path], order[step, path], errors[step]
                settled = True
                for i in range(k - 1, -1, -1):  # those next to the border first: most often they are not settled
                    for j in range(k, n):
                        a, b = ranked[i], ranked[j]
                        gap, v = score[a] - score[b], error[a, b] ** 2
                        share = v / tuned_to**2
                        growth = math.log(1.0 + 1.0 / share) if share > 0.0 else math.inf
                        above = gap * gap > v * (1.0 + share) * (growth + of_order[k - 1])
                        if not above:
                            half = math.sqrt(v * (1.0 + share) * (growth + of_equality))
                            settled = gap + half <= margin
                        if not settled:
                            break
                    if not settled:
                        break
                if settled:
                    first[k - 1, path] = step
                    break
