"""Notices: warnings about a result that is defined all the same; docs/math/fit.md lists the codes."""

from typing import Any

import numpy as np

from app.rating.errors import RatingNotice, counted
from app.rating.exchange import total
from app.rating.model.copies import Answers, find_copies
from app.rating.plain.likelihood import count_following
from app.rating.uncertainty.results import Estimate
from app.rating.votes.cells import pool_annotators

ZERO = 1e-9  # an ability nearer to 0 than this is 0 but for rounding
PAIR = 2
FEW_VOTES = 10.0  # of an annotator, below which coins are not told from others
OF_PROMPTS = 0.5  # share of the variance from which prompts are what is missing
FEWEST = 5  # annotators, of all votes or of a model, from which the spread between them is known fairly well
CAMP = 0.4  # share of annotators with negative abilities from which they are a camp

Found = tuple[Any, str, str]
"""Whether a notice applies, its code and its detail."""


def find_notices(rating: Estimate) -> tuple[RatingNotice, ...]:
    """Find everything unusual about the counted votes and their fit."""
    found = [*_of_votes(rating), *_of_intervals(rating), *(_of_abilities(rating) if rating.has_abilities else ())]
    return tuple(RatingNotice(code, detail) for applies, code, detail in found if applies)


def _of_votes(rating: Estimate) -> list[Found]:
    pairs, components = rating.pairs, rating.components
    voters = total(int(np.count_nonzero(np.diff(rating.cells.starts))))
    compared = components.label >= 0
    copies = None if rating.covariance is None else rating.covariance.copies
    copies = find_copies(Answers.of(rating.cells, rating.natural_scores())) if copies is None else copies
    clustered = rating.covariance is not None and rating.covariance.kind == "clustered"
    one = "in the intervals those who do are one" if rating.marginal is not None and clustered else None
    unidentified = int((~rating.identified & compared).sum())
    return [
        (pairs.n_votes <= 1, "one-vote", "only one vote counts: the result is hardly informative"),
        (compared.sum() == PAIR, "two-models",
         "only two models are compared: there is one difference, and abilities only scale it"),
        (rating.has_abilities and voters == 1, "one-annotator",
         "one annotator cast every vote: abilities are relative to that annotator"),
        (copies.groups, "copies",
         (f"{counted(copies.annotators, 'annotator')} give the same answers as another, far beyond what abilities "
         f"make alike: {one or 'if they are one judge several times, the intervals are too narrow'}")),
        (np.all(pairs.ties == pairs.n), "all-tied",
         "every vote is a tie: all models are equal, and abilities cannot be estimated"),
        (components.number > 1, "disconnected-graph",
         f"the comparison graph has {components.number} components that no vote links: they are ranked apart"),
        (unidentified, "no-finite-score",
         (f"no finite score for {counted(unidentified, 'model')}, at best a bound: a model only won, only lost, is "
         "linked only through such a model, or its annotators contradict each other")),
    ]  # fmt: skip


def _of_intervals(rating: Estimate) -> list[Found]:
    spread = rating.covariance
    if spread is None:
        return []
    prompts = 0 if rating.prompts is None else rating.prompts.number
    clustered, few = spread.kind == "clustered", int((spread.judges < FEWEST).sum())
    return [
        (spread.kind != rating.settings.interval, "few-annotators",
         ("one annotator says nothing of how annotators differ: the intervals take the votes as independent, and are "
         "about this annotator's opinion")),
        (clustered and spread.clusters < FEWEST, "few-annotators",
         (f"{spread.clusters} annotators are fewer than {FEWEST}: how they differ is hardly known, so the intervals "
         "are wide")),
        (clustered and spread.clusters >= FEWEST and few, "few-judges",
         (f"{counted(few, 'model')} with votes of fewer than {FEWEST} annotators: how these differ is hardly known, "
         "so the intervals take their votes as independent too, and are wide")),
        (spread.prompt_share >= OF_PROMPTS, "few-prompts",
         (f"{counted(prompts, 'prompt')}: which ones they are makes {100 * spread.prompt_share:.0f} % of the variance "
          "of the scores, so more prompts help more than more votes")),
    ]  # fmt: skip


def _of_abilities(rating: Estimate) -> list[Found]:
    theta, (along, against) = rating.fit.theta, count_following(rating.small.cells, rating.fit.R)
    follow, oppose = (np.sum((one > 0) & (other == 0)) for one, other in ((along, against), (against, along)))
    counts = len(theta), (theta < 0).sum(), (np.abs(theta) < ZERO).sum(), follow, oppose
    number, negative, zero, follow, oppose = total(np.array(counts)).tolist()
    each = pool_annotators(rating.small.cells).n_votes / max(number, 1)
    return [
        (rating.marginal is not None and each < FEW_VOTES and number >= FEWEST, "few-votes",
         (f"{each:.1f} votes an annotator do not tell who answers at random: if some do, scores are up to a tenth "
         "too close together")),
        (negative >= max(CAMP * number, PAIR), "opposed-camps",
         (f"{negative} of {number} annotators vote against the ranking: there are two camps, and a few more "
         "annotators on one side could reverse it")),
        (follow, "always-right",
         f"{counted(follow, 'annotator')} never voted against the ranking: the prior sets the ability"),
        (oppose, "always-wrong",
         f"{counted(oppose, 'annotator')} always voted against the ranking: the prior sets the ability"),
        (zero, "zero-ability",
         f"an ability of exactly 0 for {counted(zero, 'annotator')}: their votes do not count"),
    ]  # fmt: skip
