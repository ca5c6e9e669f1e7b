"""Notices: warnings about a result that is defined all the same; docs/math.md lists the codes."""

from collections.abc import Iterator

import numpy as np

from app.rating.errors import counted
from app.rating.model.copies import Answers, find_copies
from app.rating.plain.abilities import count_following
from app.rating.uncertainty.results import Estimate, RatingNotice

ZERO = 1e-9  # an ability nearer to 0 than this is 0 but for rounding
PAIR = 2
FEW_VOTES = 10.0  # of an annotator, below which coins are not told from others
FEWEST = 5  # annotators, of all votes or of a model, from which the spread between them is known fairly well
CAMP = 0.4  # share of annotators with negative abilities from which they are a camp

Found = Iterator[tuple[str, str]]


def find_notices(rating: Estimate) -> tuple[RatingNotice, ...]:
    """Find everything unusual about the counted votes and their fit."""
    found = [*_of_votes(rating), *_of_intervals(rating), *_of_fit(rating)]
    return tuple(RatingNotice(code, detail) for code, detail in found)


def _of_votes(rating: Estimate) -> Found:
    pairs, components = rating.pairs, rating.components
    models = int((components.label >= 0).sum())
    if pairs.n_votes <= 1:
        yield "one-vote", "only one vote counts: the result is hardly informative"
    if models == PAIR:
        yield "two-models", "only two models are compared: there is one difference, and abilities only scale it"
    if rating.has_abilities and rating.cells.annotator[0] == rating.cells.annotator[-1]:  # they are sorted
        yield "one-annotator", "one annotator cast every vote: abilities are relative to that annotator"
    if (copies := find_copies(Answers.of(rating.cells, rating.natural_scores()))).groups:
        detail = (
            f"{counted(copies.annotators, 'annotator')} give the same answers as another, far beyond what abilities "
            "make alike: if they are one judge several times, the intervals are too narrow"
        )
        yield "copies", detail
    if np.all(pairs.ties == pairs.n):
        yield "all-tied", "every vote is a tie: all models are equal, and abilities cannot be estimated"
    if components.number > 1:
        detail = f"the comparison graph has {components.number} components that no vote links: they are ranked apart"
        yield "disconnected-graph", detail
    if unidentified := int((~rating.identified & (components.label >= 0)).sum()):
        detail = (
            f"no finite score for {counted(unidentified, 'model')}, at best a bound: a model only won, only lost, is "
            "linked only through such a model, or its annotators contradict each other"
        )
        yield "no-finite-score", detail


def _of_intervals(rating: Estimate) -> Found:
    if rating.covariance is None:
        return
    spread = rating.covariance
    if spread.kind != rating.settings.interval:
        detail = (
            "one annotator says nothing of how annotators differ: the intervals take the votes as independent, and are "
            "about this annotator's opinion"
        )
        yield "few-annotators", detail
    elif spread.kind == "clustered" and spread.clusters < FEWEST:
        detail = (
            f"{spread.clusters} annotators are fewer than {FEWEST}: how they differ is hardly known, so the intervals "
            "are wide"
        )
        yield "few-annotators", detail
    elif spread.kind == "clustered" and (few := int((spread.judges < FEWEST).sum())):
        detail = (
            f"{counted(few, 'model')} with votes of fewer than {FEWEST} annotators: how these differ is hardly known, "
            "so the intervals take their votes as independent too, and are wide"
        )
        yield "few-judges", detail


def _of_fit(rating: Estimate) -> Found:
    if not rating.has_abilities:
        return
    theta = rating.fit.theta
    each = rating.small.cells.n_votes / max(len(theta), 1)
    if rating.marginal is not None and each < FEW_VOTES and len(theta) >= FEWEST:
        detail = (
            f"{each:.1f} votes an annotator do not tell who answers at random: if some do, scores are up to a tenth "
            "too close together"
        )
        yield "few-votes", detail
    against = int((theta < 0).sum())
    if against >= max(CAMP * len(theta), PAIR):
        detail = (
            f"{against} of {len(theta)} annotators vote against the ranking: there are two camps, and a few more "
            "annotators on one side could reverse it"
        )
        yield "opposed-camps", detail
    follow, oppose = _unanimous(rating)
    if follow:
        detail = f"{counted(follow, 'annotator')} never voted against the ranking: the prior sets the ability"
        yield "always-right", detail
    if oppose:
        detail = f"{counted(oppose, 'annotator')} always voted against the ranking: the prior sets the ability"
        yield "always-wrong", detail
    if zero := int((np.abs(theta) < ZERO).sum()):
        yield "zero-ability", f"an ability of exactly 0 for {counted(zero, 'annotator')}: their votes do not count"


def _unanimous(rating: Estimate) -> tuple[int, int]:
    """Count the annotators whose votes all follow, and whose votes all oppose, the fitted ranking."""
    along, against = count_following(rating.small.cells, rating.fit.R)
    return int(np.sum((along > 0) & (against == 0))), int(np.sum((along == 0) & (against > 0)))
