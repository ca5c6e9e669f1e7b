"""Other crowds of the same kind: the reference for every standard error that a formula gives."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from app.rating.data.sums import Floats
from app.rating.data.votes import Cells
from app.rating.errors import RatingError
from app.rating.loop.board import make_board
from app.rating.results import LoopSettings, Start
from app.rating.solver.estimate import estimate
from app.rating.solver.gauge import ELO_PER_NATURAL


@dataclass(frozen=True)
class Bootstrap:
    """Scores of crowds drawn with replacement, Elo points.

    Attributes
    ----------
    score : of the crowd itself, shape (n_models,)
    draws : shape (crowds with an answer, n_models); NaN where a crowd gives a model no score
    se : standard deviation over the draws, shape (n_models,); NaN with fewer than two scores
    lower, upper : percentile interval with the settings' confidence, shape (n_models,)
    failed : crowds without an answer (no common ranking, no votes); they are in none of the above
    settings, seed : what it was made with
    """

    score: Floats
    draws: Floats
    se: Floats
    lower: Floats
    upper: Floats
    failed: int
    settings: LoopSettings
    seed: int


def bootstrap_by_annotator(
    cells: Cells, settings: LoopSettings, *, draws: int = 200, seed: int = 0, align: bool = True
) -> Bootstrap:
    """Rate crowds made by drawing annotators with replacement: errors that take no formula on trust.

    An annotator drawn twice is two annotators with the same votes. Each crowd has a typical annotator of its own, and
    with it a unit; the formulas take the unit of the crowd at hand for granted, and so do crowds that are aligned.

    Parameters
    ----------
    cells : every vote on record
    settings : of the rating; annotators with `min_votes` or fewer are never drawn, nobody is excluded
    draws : how many crowds, at least 2
    align : bring every crowd's scores to the scale of the whole's (am-elo; m-elo's unit is fixed), which leaves no
        error along the scores themselves; else the unit's own error is in the results

    Raises
    ------
    ValueError
        Fewer than 2 draws.
    VotesError, NoFiniteMaximumError, NotConvergedError, NoCommonRankingError
        Of the crowd itself.

    Notes
    -----
    One warm fit a draw. The result depends on the seed alone.

    References
    ----------
    Cameron and Miller (2015), §VI.A (pairs cluster bootstrap).
    """
    if draws < 2:  # noqa: PLR2004  a standard deviation needs two
        raise ValueError("at least 2 draws are needed for a standard deviation")
    settings = replace(settings, interval="none")
    cells = cells.where((cells.votes_by_annotator() > settings.min_votes)[cells.annotator])
    whole = estimate(cells, settings)
    board = make_board(whole, settings)
    crowd = np.unique(cells.annotator)
    generator = np.random.default_rng(seed)
    scores = np.full((draws, cells.n_models), np.nan)
    answered = np.zeros(draws, dtype=bool)
    for draw in range(draws):
        times = np.bincount(generator.choice(crowd, len(crowd)), minlength=cells.n_annotators)
        try:
            drawn = estimate(_draw(cells, times), settings, _repeat(whole.optimum, int(times.max())))
        except RatingError:
            continue
        answered[draw] = True
        own = drawn.scores(cells.n_models) * drawn.typical * ELO_PER_NATURAL
        scores[draw] = _align(own, board.score, board.component, rescale=align and drawn.has_abilities)
    scores = scores[answered]
    known = np.sum(np.isfinite(scores), axis=0) > 1
    se, lower, upper = (np.full(cells.n_models, np.nan) for _ in range(3))
    se[known] = np.nanstd(scores[:, known], axis=0, ddof=1)
    tail = 0.5 - settings.confidence / 2.0
    lower[known], upper[known] = np.nanquantile(scores[:, known], [tail, 1.0 - tail], axis=0)
    return Bootstrap(board.score, scores, se, lower, upper, int((~answered).sum()), settings, seed)


def _draw(cells: Cells, times: NDArray[np.int64]) -> Cells:
    """Repeat annotators, each time as somebody else."""
    copies = [cells.where(times[cells.annotator] > copy) for copy in range(int(times.max()))]
    annotator = np.concatenate([part.annotator + cells.n_annotators * i for i, part in enumerate(copies)])
    a, b, n, s, ties = (
        np.concatenate([getattr(part, name) for part in copies]) for name in ("model_a", "model_b", "n", "s", "ties")
    )
    return Cells(annotator.astype(np.int32), a, b, n, s, ties, cells.n_annotators * len(copies), cells.n_models)


def _repeat(start: Start, copies: int) -> Start:
    return replace(start, ability=np.tile(start.ability, copies))


def _align(own: Floats, score: Floats, component: NDArray[np.int64], *, rescale: bool) -> Floats:
    """Shift every component to the scores it has in common with the whole crowd's, and bring them to one scale."""
    common = np.isfinite(own) & np.isfinite(score)
    centred, middle, reference = own.copy(), np.zeros(len(own)), score.copy()
    for each in np.unique(component[common]):
        mine = component == each
        middle[mine] = score[mine & common].mean()
        centred[mine] -= own[mine & common].mean()
        reference[mine] -= middle[mine]
    along = float(centred[common] @ reference[common])
    if rescale and along > 0:  # what has nothing in common with the whole keeps the scale it has
        centred *= float(reference[common] @ reference[common]) / along
    return centred + middle
