from dataclasses import replace

import numpy as np

from app.rating.arrays import Floats, Mask
from app.rating.detection.evidence import Evidence, Weigher, weigh, weigher_by_rule
from app.rating.detection.sided_cells import SidedCells
from app.rating.errors import VotesError
from app.rating.fit.abilities import shadow_abilities
from app.rating.fit.warm_start import Start
from app.rating.settings import LoopSettings, check_settings
from app.rating.threads import one_blas_thread
from app.rating.uncertainty.estimate import estimate
from app.rating.uncertainty.models import check_anchor
from app.rating.uncertainty.rating import Rating
from app.rating.uncertainty.results import AnnotatorEstimates, RatingNotice
from app.rating.verdict.flags import Judge
from app.rating.votes.cells import Cells
from app.rating.votes.indexed import IndexedVotes

WORTH = 0.5  # share of the votes that weights leave, below which a notice says so


@one_blas_thread()
def run_round(
    cells: Cells,
    settings: LoopSettings,
    *,
    keep_always: Mask | None = None,
    keep_never: Mask | None = None,
    was_low: Mask | None = None,
    was_excluded: Mask | None = None,
    start: Start | None = None,
    weigher: Weigher | None = None,
) -> Rating:
    """Run one round of the loop (Algorithm 3): drop annotators with δ votes or fewer, fit, flag, publish.

    With `settings.exclude` the flagged annotators are taken out and the rest is fitted again: once after the tests,
    where evidence is the rule, and once after ε. Annotators who fall to ε only in the last fit are flagged and stay in,
    and so are those that only a test about a model finds. Without `settings.exclude` flagged annotators stay in the
    fit. After each fit abilities are judged anew.

    Parameters
    ----------
    cells : every vote on record, from `aggregate`
    keep_always : annotators that the rule cannot flag or exclude (they still need δ votes), shape (n_annotators,)
    keep_never : annotators left out whatever their ability, shape (n_annotators,)
    was_low : annotators that the rule flagged or excluded in the round before, shape (n_annotators,)
    was_excluded : those of them that it excluded; with `settings.exclude` only these stay excluded by a margin. The
        others were flagged by a test about a model, which says nothing of the reasons that exclude. Default `was_low`
    start : results of an earlier round. The result is the same with fewer iterations. It is not used with fewer than
        20 annotators in the fit (which takes milliseconds, and may have several maxima), nor where it explains the
        votes no better than a coin; values that are not finite count as unknown. If the fit fails from it, the fit is
        repeated from the default start
    weigher : weighs the evidence, which is then part of the result whatever the rule is; by default evidence is
        weighed only where it is the rule, and from the cells alone (tests that need more than cells are left out)

    Raises
    ------
    ValueError
        A setting is unknown, out of range or contradicts another.
    VotesError
        No vote is left to fit.
    NoFiniteMaximumError, NotConvergedError, NoCommonRankingError

    References
    ----------
    Liu et al., Am-ELO, ICML 2025, Algorithm 3.
    """
    check_settings(settings, cells.n_models)
    no_annotator = np.zeros(cells.n_annotators, dtype=bool)
    keep_always, keep_never, was_low = (no_annotator if x is None else x for x in (keep_always, keep_never, was_low))
    votes = cells.votes_by_annotator()
    enough = votes > settings.min_votes
    in_fit = enough & ~keep_never
    if not in_fit.any():
        raise VotesError(_no_vote_left(votes, settings, int(keep_never.sum())))
    if weigher is None and settings.flag_rule == "evidence" and settings.method == "am-elo":
        weigher = _weigher(cells, settings.evidence_tests)

    result = estimate(cells.where(in_fit[cells.annotator]), settings, start)
    seconds = _Seconds(result)
    was_acted = was_excluded if settings.exclude and was_excluded is not None else was_low
    judge = Judge(settings, weigher, enough, was_low, was_acted)
    judge.weigh(result)
    suspects, opinionated = judge.suspects(), judge.opinionated()
    of_evidence = in_fit & suspects.low & ~keep_always
    rest = in_fit & ~of_evidence
    if settings.exclude and of_evidence.any():
        result = seconds.add(_fit_again(cells, rest, settings, start, "flagged by the evidence"))
        judge.weigh(result)
    of_ability = judge.unable(result.annotators.ability)
    low = of_ability.low & rest & ~keep_always
    if settings.exclude and low.any():
        at_most = f"at or below the ability threshold {settings.min_ability}"
        result = seconds.add(_fit_again(cells, rest & ~low, settings, start, at_most))
        judge.weigh(result)
    flagged = of_evidence | low
    excluded_share = float(votes[flagged].sum() / votes[in_fit].sum())
    excluded = flagged if settings.exclude else no_annotator

    in_fit = in_fit & ~excluded
    ability, se = result.annotators.ability, result.annotators.se
    shadow, shadow_se = _shadows(cells, in_fit, result, settings)
    known, known_se = np.where(np.isnan(ability), shadow, ability), np.where(np.isnan(ability), shadow_se, se)
    by_ability = judge.unable(known)
    acted = (suspects.low | by_ability.low) & enough
    below = acted | (opinionated.low & enough)
    held = (suspects.held | of_ability.held | by_ability.held | (opinionated.held & ~acted)) & enough
    standing = np.full(cells.n_annotators, "active", dtype="<U8")
    standing[below] = "flagged"
    # `keep_always` and `keep_never` do not change what the rule says
    standing[excluded | (acted & (keep_always | keep_never) & settings.exclude)] = "excluded"
    standing[~enough] = "pending"
    rule = judge.reasons(suspects.low & enough, (excluded | acted) & ~suspects.low, opinionated.low & enough)
    low_probability = judge.probability_low(known, known_se)
    annotators = AnnotatorEstimates(ability, se, shadow, shadow_se, low_probability, votes, standing, rule, held)
    check_anchor(settings, result.identified)
    spent = seconds.spent if weigher is None else {**seconds.spent, "evidence": judge.seconds}
    return replace(result, annotators=annotators, evidence=judge.evidence, excluded_share=excluded_share, seconds=spent)


class _Seconds:
    """The seconds of each stage, summed over several fits."""

    def __init__(self, first: Rating) -> None:
        self.spent = dict(first.seconds)

    def add(self, result: Rating) -> Rating:
        """Add the seconds of a fit, and return the fit."""
        self.spent.update({stage: self.spent[stage] + taken for stage, taken in result.seconds.items()})
        return result


def _fit_again(cells: Cells, rest: Mask, settings: LoopSettings, start: Start | None, reason: str) -> Rating:
    if not rest.any():
        raise VotesError(f"every annotator is {reason}")
    return estimate(cells.where(rest[cells.annotator]), settings, start)


def _weigher(cells: Cells, tests: tuple[str, ...]) -> Weigher:
    def weigh_without_sides(R: Floats, whose: Mask, *, tested: bool = True) -> Evidence:
        sided = SidedCells.unknown(cells.where(whose[cells.annotator]))
        return weigh(sided, R, tests=tests if tested else ())

    return weigh_without_sides


def _no_vote_left(votes: Floats, settings: LoopSettings, never: int) -> str:
    most = f"; the most that one of {len(votes)} annotators has is {votes.max():g}" if len(votes) else ""
    left_out = f", {never} excluded" if never else ""
    return f"no vote is left: no annotator has more than {settings.min_votes} votes{most}{left_out}"


def _shadows(cells: Cells, in_fit: Mask, result: Rating, settings: LoopSettings) -> tuple[Floats, Floats]:
    if not result.has_abilities or in_fit.all():
        return np.full(cells.n_annotators, np.nan), np.full(cells.n_annotators, np.nan)
    scored = result.identified[cells.model_a] & result.identified[cells.model_b]
    outside = cells.where(scored & ~in_fit[cells.annotator])
    R = np.nan_to_num(result.scores())
    theta, se = shadow_abilities(
        outside, R,
        prior_sd=result.fit.prior_sd, ability_cap=settings.ability_cap,
        bias_correction=settings.bias_correction and settings.prior_sd is not None,
    )  # fmt: skip
    return theta / result.typical, se / result.typical


def rate_indexed(
    votes: IndexedVotes, cells: Cells, settings: LoopSettings, *, inverse_propensity: bool = False
) -> Rating:
    """Run one round of the loop on votes that have sides, with `run_round`'s errors.

    Parameters
    ----------
    cells : the votes, aggregated
    inverse_propensity : weigh each vote by 1/propensity (`app.rating.votes.indexed`). δ counts votes and the tests
        read them as they are: weights change neither

    Raises
    ------
    ValueError
        Inverse propensities with an interval by votes: errors by votes do not hold for weights, those by annotators do.
    VotesError
        A vote has no propensity, or intervals are asked for and there is one annotator.
    """
    weigher = weigher_by_rule(votes, settings)
    if not inverse_propensity:
        return run_round(cells, settings, weigher=weigher)
    if settings.interval not in ("clustered", "none"):
        raise ValueError(f"inverse propensities need the interval clustered or none, not {settings.interval}")
    if settings.interval == "clustered" and len(votes.annotators) == 1:
        raise VotesError("inverse propensities need two annotators or more, or the interval none")
    weight = votes.choice_weights()
    result = run_round(replace(votes, weight=weight).aggregate(), settings, weigher=weigher)
    share = _worth(weight)
    if share >= WORTH:
        return result
    detail = (
        f"weighted by inverse propensities, the votes say as much as {100 * share:.0f} % of them with equal weights"
    )
    notice = RatingNotice("uneven-propensities", detail)
    return replace(result, further=(notice,))


def _worth(weight: Floats) -> float:
    """Return (Σw)²/(n Σw²), Kish's effective share of the votes."""
    return float(weight.sum() ** 2 / (len(weight) * (weight**2).sum()))
