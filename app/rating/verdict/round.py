from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from app.rating.arrays import Floats, Mask
from app.rating.errors import RatingNotice, VotesError, counted
from app.rating.exchange import anywhere, concatenated, join, total
from app.rating.model.abilities import find_abilities
from app.rating.plain.likelihood import shadow_abilities
from app.rating.settings import LoopSettings, check_settings
from app.rating.threads import one_blas_thread
from app.rating.types.evidence import Weigher
from app.rating.uncertainty.estimate import add_errors, fit_without_errors
from app.rating.uncertainty.results import AnnotatorEstimates, Estimate, Start
from app.rating.verdict.flags import Flagger, Flags
from app.rating.verdict.rating import Rating, publish
from app.rating.votes.cells import Cells
from app.rating.votes.features import SidedCells
from app.rating.votes.indexed import IndexedVotes, refuse_rankings
from app.rating.votes.prompts import PromptCells

GROUP_ROUNDS = 6
STABLE = 0.02  # change of a weight
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
    votes: Floats | None = None,
    prompts: PromptCells | None = None,
) -> Rating:
    """Run one round of the loop (Algorithm 3): drop annotators with δ votes or fewer, fit, flag, publish.

    Votes on a model weigh the less, the likelier it is that the annotator pushes or buries that model: the fit and the
    tests are repeated until they agree on who does.

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
    votes : of each annotator, as δ counts them, shape (n_annotators,); by default the cells' votes
    prompts : the votes with a prompt; intervals allow for what votes on the same one have in common

    Raises
    ------
    ValueError
        A setting is unknown, out of range or contradicts another.
    VotesError
        No vote is left to fit, or the interval takes the votes of rankings as independent.
    NoFiniteMaximumError, NotConvergedError, NoCommonRankingError

    References
    ----------
    Liu et al., Am-ELO, ICML 2025, Algorithm 3.
    """
    check_settings(settings, cells.n_models)
    if votes is not None:
        refuse_rankings(settings.interval, votes, cells)
    no_annotator = np.zeros(cells.n_annotators, dtype=bool)
    keep_always, keep_never, was_low = (no_annotator if x is None else x for x in (keep_always, keep_never, was_low))
    was_acted = was_excluded if settings.exclude and was_excluded is not None else was_low
    one = _Round(cells, settings, start, keep_always, keep_never, votes)
    if weigher is None and settings.weighs_evidence:
        weigher = Weigher(SidedCells.unknown(cells), settings.evidence_tests)
    flagger = Flagger(settings, weigher, one.enough, was_low, was_acted)

    one.fit(flagger, "excluded")
    one.weigh_groups(flagger)
    by_tests, about_models = flagger.flagged_by_tests(), flagger.flagged_about_models()
    one.take_out(by_tests.low, flagger, "flagged by the evidence")
    by_ability = flagger.flagged_by_ability(one.found.annotators.ability)
    one.take_out(by_ability.low, flagger, f"at or below the ability threshold {settings.min_ability}")
    return one.conclude(flagger, by_tests, by_ability, about_models, prompts)


@one_blas_thread()
def fit_round_again(
    cells: Cells,
    settings: LoopSettings,
    *,
    spared: Mask,
    weigher: Weigher,
    start: Start | None = None,
    prompts: PromptCells | None = None,
) -> Rating:
    """Fit the votes of annotators that a round left in the fit, or of somewhat other ones, without asking its rules.

    Votes weigh less on models that annotators push or bury, as in `run_round`.

    Parameters
    ----------
    cells : votes of the annotators in the fit
    spared : annotators kept by decision, whose votes keep their weight, shape (n_annotators,)
    weigher : as for `run_round`, for these annotators too; used where evidence is the rule
    prompts : as for `run_round`

    Raises
    ------
    VotesError, NoFiniteMaximumError, NotConvergedError, NoCommonRankingError
    """
    none = np.zeros(cells.n_annotators, dtype=bool)
    one = _Round(cells, replace(settings, min_votes=0), start, spared, none)
    flagger = Flagger(settings, weigher if settings.weighs_evidence else None, one.counted, none, none)
    one.fit(flagger, "excluded")
    one.weigh_groups(flagger)
    return publish(add_errors(one.found, prompts))


class _Round:
    """One round: the annotators that count, those that the rules take out, and the newest fit.

    Masks have the shape (n_annotators,).

    Attributes
    ----------
    votes : of each annotator
    enough : past δ
    counted : in the first fit
    out : of those, the ones that a rule takes out, or would where `exclude` is off
    trust : weight of each cell's votes because of models that annotators push or bury; None: 1
    found : the newest fit, without errors
    seconds : spent on fits
    """

    found: Estimate

    def __init__(
        self, cells: Cells, settings: LoopSettings, start: Start | None, keep_always: Mask, keep_never: Mask,
        votes: Floats | None = None,
    ) -> None:  # fmt: skip
        self.cells, self.settings, self.start = cells, settings, start
        self.keep_always, self.keep_never = keep_always, keep_never
        self.votes = cells.votes_by_annotator() if votes is None else votes
        self.enough = self.votes > settings.min_votes
        self.counted = self.enough & ~keep_never
        self.trust: Floats | None = None
        self.out, self.seconds = np.zeros_like(self.enough), 0.0
        if not anywhere(self.counted):
            votes, never = join(concatenated, self.votes), total(int(keep_never.sum()))
            raise VotesError(_no_vote_left(votes, settings, never), "no-votes")

    @property
    def left(self) -> Mask:
        """Annotators that count in the newest fit."""
        left: Mask = self.counted & ~self.out if self.settings.exclude else self.counted
        return left

    def fit(self, flagger: Flagger, reason: str, *, tested: bool = True) -> None:
        """Fit the votes of the annotators left, and weigh the evidence by it; `reason` says why none may be left."""
        if not anywhere(self.left):
            raise VotesError(f"every annotator is {reason}", "no-votes")
        cells = self.cells if self.trust is None else replace(self.cells, trust=self.trust)
        self.found = fit_without_errors(cells.where(self.left[cells.annotator]), self.settings, self.start)
        self.seconds += self.found.seconds["fit"]
        flagger.weigh(self.found, tested=tested)

    def weigh_groups(self, flagger: Flagger) -> None:
        """Fit again with less weight for the votes of annotators on models that they push or bury, until it is stable.

        Annotators kept by decision keep their weight. Without a prior all votes weigh 1.
        """
        if self.settings.prior_sd is None:
            return
        for _ in range(GROUP_ROUNDS):
            trust = flagger.trust(self.cells, self.keep_always)
            if not anywhere(trust is not None):
                break
            trust = np.ones(len(self.cells.n)) if trust is None else trust
            before = np.ones(1) if self.trust is None else self.trust
            if not anywhere(np.abs(trust - before) >= STABLE):
                break
            self.trust, self.start = trust, self.found.optimum
            self.fit(flagger, "excluded")

    def take_out(self, flagged: Mask, flagger: Flagger, reason: str) -> None:
        """Take out the annotators flagged, apart from those kept by decision, and with `exclude` fit the others."""
        more = self.counted & flagged & ~self.keep_always & ~self.out
        self.out = self.out | more
        if self.settings.exclude and anywhere(more):
            self.fit(flagger, reason, tested=False)

    def conclude(
        self, flagger: Flagger, by_tests: Flags, by_ability: Flags, about_models: Flags, prompts: PromptCells | None
    ) -> Rating:
        """Return the last fit with every annotator's standing by the rules, and why."""
        found = add_errors(self.found, prompts)
        known, known_se = self._abilities(found, flagger)
        inside = np.isfinite(found.annotators.ability)
        ability, se, shadow, shadow_se = (
            np.where(some, figure, np.nan) for some in (inside, ~inside) for figure in (known, known_se)
        )
        last_by_ability = flagger.flagged_by_ability(known)
        acted = (by_tests.low | last_by_ability.low) & self.enough
        excluded = self.counted & ~self.left
        held = (by_tests.held | by_ability.held | last_by_ability.held | (about_models.held & ~acted)) & self.enough
        annotators = AnnotatorEstimates(
            ability, se, shadow, shadow_se, flagger.probability_low(known, known_se), self.votes,
            standing=self._standings(acted, excluded, about_models.low),
            rule=flagger.reasons(
                by_tests.low & self.enough, (excluded | acted) & ~by_tests.low, about_models.low & self.enough
            ),
            held=held,
        )  # fmt: skip
        seconds = {**found.seconds, "fit": self.seconds}
        if flagger.weigher is not None:
            seconds["evidence"] = flagger.seconds
        out, counted = total(np.array([self.votes[some].sum() for some in (self.out, self.counted)])).tolist()
        return publish(found, flagger.evidence, out / counted, annotators=annotators, seconds=seconds)

    def _standings(self, acted: Mask, excluded: Mask, about_models: Mask) -> NDArray[np.str_]:
        """Return every standing; decisions to keep annotators do not change what the rule says."""
        standing = np.full(len(acted), "active", dtype="<U8")
        standing[(acted | about_models) & self.enough] = "flagged"
        standing[excluded | (acted & (self.keep_always | self.keep_never) & self.settings.exclude)] = "excluded"
        standing[~self.enough] = "pending"
        return standing

    def _abilities(self, found: Estimate, flagger: Flagger) -> tuple[Floats, Floats]:
        """Return all abilities and their errors: those outside the fit against its scores, NaN without a vote."""
        posterior, cells = flagger.abilities(), self.cells
        if posterior is not None and found.marginal is not None:
            return posterior
        inside = found.annotators.ability, found.annotators.se
        if not found.has_abilities or self.left.all():
            return inside
        scored = found.identified[cells.model_a] & found.identified[cells.model_b]
        others, R = cells.where(scored & ~self.left[cells.annotator]), np.nan_to_num(found.natural_scores())
        if found.marginal is None:
            outside = shadow_abilities(others, R)
        else:
            outside = find_abilities(others, R, found.marginal)[:2]
        ability, se = (np.where(np.isnan(inside[0]), *both) for both in zip(outside, inside, strict=True))
        return ability, se


def _no_vote_left(votes: Floats, settings: LoopSettings, never: int) -> str:
    voters = int((votes > 0.0).sum())
    most = f"; the most that one of {counted(voters, 'annotator')} has is {votes.max():g}" if voters else ""
    left_out = f", {never} excluded" if never else ""
    return f"no vote is left: no annotator has more than {settings.min_votes} votes{most}{left_out}"


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
    weigher, counted = None, votes.rankings_by_annotator()
    if settings.weighs_evidence:
        weigher = Weigher(SidedCells.of_indexed(votes), settings.evidence_tests)
    if not inverse_propensity:
        return run_round(cells, settings, weigher=weigher, votes=counted, prompts=votes.by_prompt())
    if settings.interval not in ("clustered", "none"):
        raise ValueError(f"inverse propensities need the interval clustered or none, not {settings.interval}")
    if settings.interval == "clustered" and len(votes.annotators) == 1:
        raise VotesError("inverse propensities need two annotators or more, or the interval none")
    weight = votes.choice_weights()
    votes = replace(votes, weight=weight)
    result = run_round(votes.aggregate(), settings, weigher=weigher, votes=counted, prompts=votes.by_prompt())
    share = _worth(weight)
    if share >= WORTH:
        return result
    detail = (
        f"weighted by inverse propensities, the votes say as much as {100 * share:.0f} % of them with equal weights"
    )
    notice = RatingNotice("uneven-propensities", detail)
    return result.with_notice(notice)


def _worth(weight: Floats) -> float:
    """Return (Σw)²/(n Σw²), Kish's effective share of the votes."""
    return float(weight.sum() ** 2 / (len(weight) * (weight**2).sum()))
