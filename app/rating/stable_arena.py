import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from app.rating.board import make_board
from app.rating.errors import VotesError
from app.rating.estimate import Estimate, estimate
from app.rating.notices import find_notices
from app.rating.results import Crowd, Diagnostics, LoopSettings, Rating, Start
from app.rating.shadow import shadow_abilities
from app.rating.sums import Floats
from app.rating.votes import Cells

Mask = NDArray[np.bool_]


def run_stable_arena(
    cells: Cells,
    settings: LoopSettings,
    *,
    keep_always: Mask | None = None,
    keep_never: Mask | None = None,
    start: Start | None = None,
) -> Rating:
    """Turn the loop once (Algorithm 3): drop annotators with δ votes or fewer, fit, judge by ε.

    With `settings.exclude` annotators at or below ε are taken out and the rest is fitted again, once; those who fall
    to ε only then are flagged. Without it those at or below ε are flagged and stay in.

    Parameters
    ----------
    cells : every vote on record, from `aggregate`
    keep_always : annotators whom the ε rule cannot flag or exclude (they still need δ votes), shape (n_annotators,)
    keep_never : annotators left out whatever their ability, shape (n_annotators,)
    start : an earlier turn's results; fewer iterations where little has changed, the same result

    Raises
    ------
    ValueError
        Settings that contradict each other or lie out of range.
    VotesError
        No vote is left to fit.
    NoFiniteMaximumError, NotConvergedError, NoCommonRankingError

    References
    ----------
    Liu et al., Am-ELO, ICML 2025, Algorithm 3.
    """
    _check(settings)
    nobody = np.zeros(cells.n_annotators, dtype=bool)
    keep_always = nobody if keep_always is None else keep_always
    keep_never = nobody if keep_never is None else keep_never
    votes = cells.votes_by_annotator()
    enough = votes > settings.min_votes
    in_fit = enough & ~keep_never
    if not in_fit.any():
        raise VotesError(_nobody_left(votes, settings, int(keep_never.sum())))
    result = estimate(cells.where(in_fit[cells.annotator]), settings, start)
    first_seconds = result.seconds
    low = _abilities(result, cells.n_annotators)[0] <= settings.min_ability
    low &= ~keep_always
    excluded_share = float(votes[low].sum() / votes[in_fit].sum())
    excluded = nobody
    if settings.exclude and low.any():
        excluded = low
        in_fit = in_fit & ~low
        if not in_fit.any():
            raise VotesError(f"every annotator is at or below the ability threshold {settings.min_ability}")
        result = estimate(cells.where(in_fit[cells.annotator]), settings, start)
    ability, se = _abilities(result, cells.n_annotators)
    shadow, shadow_se = _shadows(cells, in_fit, result, settings)
    known, known_se = np.where(np.isnan(ability), shadow, ability), np.where(np.isnan(ability), shadow_se, se)
    below = known <= settings.min_ability
    standing = np.full(cells.n_annotators, "active", dtype="<U8")
    standing[below] = "flagged"
    # what the rule says of those whom the caller keeps in or out is no different
    standing[excluded | (below & (keep_always | keep_never) & settings.exclude)] = "excluded"
    standing[~enough] = "pending"
    crowd = Crowd(ability, se, shadow, shadow_se, _probability_low(known, known_se, settings), votes, standing)
    board = make_board(result, settings)
    seconds = {
        stage: result.seconds[stage] + (first_seconds[stage] if excluded.any() else 0.0) for stage in first_seconds
    }
    diagnostics = _diagnose(result, settings, excluded_share, seconds)
    return Rating(settings, board, crowd, diagnostics, result.cells.n_votes, result.optimum)


def _check(settings: LoopSettings) -> None:
    if settings.min_votes < 0:
        raise ValueError("min_votes must not be negative")
    if isinstance(settings.prior_sd, (int, float)) and not settings.prior_sd > 0:
        raise ValueError("prior_sd must be greater than 0")
    if settings.ability_cap is not None and settings.prior_sd is None:
        raise ValueError("ability_cap needs prior_sd: without a prior nothing sets the scale of abilities")
    if settings.ability_cap is not None and not settings.ability_cap > 1:
        raise ValueError("ability_cap must be greater than 1, the typical ability")
    if not 0 < settings.confidence < 1:
        raise ValueError("confidence must lie between 0 and 1")


def _nobody_left(votes: Floats, settings: LoopSettings, never: int) -> str:
    most = f"; the most any of {len(votes)} annotators has is {votes.max():g}" if len(votes) else ""
    left_out = f", {never} excluded" if never else ""
    return f"no vote is left: no annotator has more than {settings.min_votes} votes{most}{left_out}"


def _abilities(result: Estimate, n_annotators: int) -> tuple[Floats, Floats]:
    """Return published abilities and standard errors, NaN outside the fit and for m-ELO."""
    ability, se = np.full(n_annotators, np.nan), np.full(n_annotators, np.nan)
    if result.covariance is not None:
        se[result.small.annotators] = result.covariance.ability_se / result.annotator_unit
    if result.has_abilities:
        ability[result.small.annotators] = result.solution.theta / result.annotator_unit
    return ability, se


def _shadows(cells: Cells, in_fit: Mask, result: Estimate, settings: LoopSettings) -> tuple[Floats, Floats]:
    if not result.has_abilities:
        return np.full(cells.n_annotators, np.nan), np.full(cells.n_annotators, np.nan)
    scored = result.core[cells.model_a] & result.core[cells.model_b]
    outside = cells.where(scored & ~in_fit[cells.annotator])
    R = np.nan_to_num(result.scores(cells.n_models))
    theta, se = shadow_abilities(
        outside, R,
        prior_sd=result.solution.prior_sd, ability_cap=settings.ability_cap,
        bias_correction=settings.bias_correction and settings.prior_sd is not None,
    )  # fmt: skip
    return theta / result.typical, se / result.typical


def _probability_low(ability: Floats, se: Floats, settings: LoopSettings) -> Floats:
    with np.errstate(invalid="ignore", divide="ignore"):
        probability: Floats = norm.cdf((settings.min_ability - ability) / se)
    return probability


def _diagnose(
    result: Estimate, settings: LoopSettings, excluded_share: float, seconds: dict[str, float]
) -> Diagnostics:
    solution, prior, median = result.solution, result.solution.prior, result.typical
    published_cap = settings.ability_cap / median if settings.ability_cap is not None and result.has_abilities else None
    estimated = prior is not None and np.isfinite(prior.se)
    return Diagnostics(
        log_likelihood=solution.fit.log_likelihood,
        iterations=solution.fit.iterations,
        converged=True,  # a fit that is not raises NotConvergedError
        components=result.components.number,
        interval="none" if result.covariance is None else result.covariance.kind,
        median_ability=median,
        published_cap=published_cap,
        prior_sd=solution.prior_sd,
        ability_spread=prior.spread / median if prior is not None and estimated else None,
        ability_spread_se=prior.se / median if prior is not None and estimated else None,
        excluded_share=excluded_share,
        seconds=seconds,
        warnings=find_notices(result, settings, published_cap),
    )
