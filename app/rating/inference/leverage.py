"""Information that too few vouch for: of a model that one annotator judged, a sandwich sees no uncertainty at all."""

import numpy as np

from app.rating.data.arrays import Floats, Indices, Ints
from app.rating.data.compiled import compiled
from app.rating.data.threads import map_parts
from app.rating.data.votes import Cells
from app.rating.solver.likelihood import Likelihood
from app.rating.solver.residuals import moments

NOTHING = 1e-300  # in place of no information at all, of which there is no share
ENOUGH = 20  # clusters of equal say on a model leave nothing to make up for


def unvouched(likelihood: Likelihood, R: Floats, theta: Floats, information: Floats, *, by_vote: bool) -> Floats:
    """Return Σw of each cell times what of it has no other voucher, from the largest share h that one cluster supplies.

    h is of all that is known of either model of the cell. A cluster's own gradient is fitted away by h, and the
    squares of what is left are few where h is large: min(1, 2 (h − 1/20)), nothing below 1/20, makes up for both as
    far as votes are independent (docs/math.md, "Uncertainty").

    Parameters
    ----------
    R, theta : the fit
    information : Σ w θ² of each model, shape (n_models,)
    by_vote : every vote is a cluster of its own; else an annotator's votes are one

    Returns
    -------
    amount : shape (n_cells,); Σ amount · u uᵀ, u a vote's gradient of the scores by its residual, joins the meat
    """
    c, amount = likelihood.cells, np.zeros(len(likelihood.cells.n))

    def fill(part: tuple[int, int]) -> None:
        weigh(
            *part,
            likelihood.rows.starts,
            c.model_a,
            c.model_b,
            c.n,
            R,
            theta,
            information,
            by_vote,
            1.0 / ENOUGH,
            amount,
        )

    map_parts(fill, likelihood.rows.parts)
    return amount


def count_judges(cells: Cells) -> Indices:
    """Count the annotators who compared each model, shape (n_models,); cells sorted by annotator."""
    judges, last = np.zeros(cells.n_models, dtype=np.int64), np.full(cells.n_models, -1, dtype=np.int64)
    tell_apart(cells.annotator, cells.model_a, cells.model_b, last, judges)
    return judges


@compiled
def tell_apart(annotator: Ints, model_a: Ints, model_b: Ints, last: Indices, judges: Indices) -> None:
    """Add to judges (n_models,) whoever is not the model's last one, which becomes `last` (n_models,)."""
    for cell in range(len(annotator)):
        for model in (model_a[cell], model_b[cell]):
            if last[model] != annotator[cell]:
                last[model] = annotator[cell]
                judges[model] += 1


@compiled
def weigh(
    first: int, last: int, starts: Indices, model_a: Ints, model_b: Ints, n: Floats,
    R: Floats, theta: Floats, information: Floats, by_vote: bool, usual: float, amount: Floats,
) -> None:  # fmt: skip
    """Set amount (n_cells,) of annotators first … last−1 to `unvouched`."""
    own = np.zeros(len(R))
    for k in range(first, last):
        square = theta[k] ** 2
        for cell in range(starts[k], starts[k + 1]):
            a, b = model_a[cell], model_b[cell]
            _, variance, _ = moments(theta[k] * (R[a] - R[b]))
            amount[cell] = n[cell] * variance
            own[a] += amount[cell] * square
            own[b] += amount[cell] * square
        for cell in range(starts[k], starts[k + 1]):
            a, b = model_a[cell], model_b[cell]
            of_a, of_b = own[a], own[b]
            if by_vote:
                of_a = of_b = amount[cell] * square / max(n[cell], 1.0)
            share = max(of_a / max(information[a], NOTHING), of_b / max(information[b], NOTHING))
            amount[cell] *= min(max(2.0 * (share - usual), 0.0), 1.0)
        for cell in range(starts[k], starts[k + 1]):
            own[model_a[cell]] = own[model_b[cell]] = 0.0
