"""What a reader should know of a result that is defined all the same; docs/math.md lists the codes."""

from collections.abc import Iterator

import numpy as np

from app.rating.inference.covariance import FEWEST_CLUSTERS
from app.rating.inference.estimate import Estimate
from app.rating.inference.leverage import count_judges
from app.rating.loop.results import RatingNotice
from app.rating.settings import LoopSettings
from app.rating.solver.following import count_following
from app.rating.solver.partition import CellRows
from app.rating.solver.prior_spread import FEWEST_ANNOTATORS, LEAST, MOST

CAP_RANGE = (1.25, 2.5)  # around the 1.5 to 2 in which the cap holds attackers and costs honest annotators nothing
ZERO = 1e-9  # an ability nearer to 0 than this is 0 but for rounding
PAIR = 2
FEWEST_JUDGES = 5  # of a model, from which the spread between them says something
CAMP = 0.4  # share of annotators with negative abilities from which they are a camp


def find_notices(result: Estimate, settings: LoopSettings, published_cap: float | None) -> tuple[RatingNotice, ...]:
    """Name everything unusual about the votes that count and the fit of them."""
    found = [*_of_votes(result), *_of_intervals(result, settings), *_of_fit(result)]
    if published_cap is not None and not CAP_RANGE[0] <= published_cap <= CAP_RANGE[1]:
        detail = (
            f"the ability cap is {published_cap:.2f} times the typical ability, outside {CAP_RANGE[0]} to "
            f"{CAP_RANGE[1]}: a few annotators set the scale"
        )
        found.append(("cap-out-of-range", detail))
    return tuple(RatingNotice(code, detail) for code, detail in found)


def _of_votes(result: Estimate) -> Iterator[tuple[str, str]]:
    pairs, components = result.pairs, result.components
    models = int((components.label >= 0).sum())
    if pairs.n_votes <= 1:
        yield "one-vote", "a single vote counts: it says next to nothing"
    if models == PAIR:
        yield "two-models", "only two models are compared: there is one difference, and abilities can but scale it"
    if result.cells.annotator[0] == result.cells.annotator[-1]:  # they are sorted
        yield "one-annotator", "one annotator cast every vote: abilities are relative to that annotator"
    if np.all(pairs.ties == pairs.n):
        yield "all-tied", "every vote is a tie: all models are equal, and nothing tells annotators apart"
    if components.number > 1:
        detail = f"the comparison graph has {components.number} components that no vote links: they are ranked apart"
        yield "disconnected-graph", detail
    unidentified = int((~result.core & (components.label >= 0)).sum())
    if unidentified:
        yield (
            "no-finite-score",
            (
                f"{unidentified} model(s) only won, only lost, hang on one that did, or are left open by judges who "
                "contradict each other: no finite score, at best a bound"
            ),
        )


def _of_intervals(result: Estimate, settings: LoopSettings) -> Iterator[tuple[str, str]]:
    if result.covariance is None:
        return
    kind, few = result.covariance.kind, int((count_judges(result.small.cells) < FEWEST_JUDGES).sum())
    if kind != settings.interval:
        yield (
            "few-annotators",
            (
                f"intervals are {kind} instead of {settings.interval}: {result.covariance.clusters} annotators are "
                f"fewer than {FEWEST_CLUSTERS}"
            ),
        )
    elif kind == "clustered" and few:
        yield (
            "few-judges",
            (
                f"{few} model(s) were judged by fewer than {FEWEST_JUDGES} annotators: their intervals take those "
                "annotators' votes for independent"
            ),
        )


def _of_fit(result: Estimate) -> Iterator[tuple[str, str]]:
    if not result.has_abilities:
        return
    theta = result.solution.fit.theta
    against = int((theta < 0).sum())
    if against >= max(CAMP * len(theta), PAIR):
        detail = (
            f"{against} of {len(theta)} annotators vote against the ranking: two camps, and a few annotators more or "
            "less could turn it round"
        )
        yield "opposed-camps", detail
    follow, oppose = _unanimous(result)
    if follow:
        yield (
            "always-right",
            f"{follow} annotator(s) never voted against the ranking: the prior or cap sets their ability",
        )
    if oppose:
        yield "always-wrong", f"{oppose} annotator(s) always voted against the ranking: the prior sets their ability"
    zero = int((np.abs(theta) < ZERO).sum())
    if zero:
        yield "zero-ability", f"{zero} annotator(s) have an ability of exactly 0: their votes say nothing of the models"
    undecided = int(result.solution.fit.undecided.sum())
    if undecided:
        yield (
            "undecided-abilities",
            (
                f"the votes do not tell which of {undecided} annotator(s) to believe (no stable maximum): "
                "they all count alike, with ability 1"
            ),
        )
    prior = result.solution.prior
    if prior is not None and prior.source == "assumed":
        yield (
            "prior-spread-assumed",
            (
                f"the spread of abilities was not estimated (fewer than {FEWEST_ANNOTATORS} annotators, or abilities "
                f"undecided): the prior's is {prior.sd:g}"
            ),
        )
    elif prior is not None and prior.source != "estimated":
        bound = f"less than {LEAST}" if prior.source == "at-least" else f"more than {MOST}"
        yield "prior-spread-at-bound", f"abilities seem to spread by {bound} around 1: {prior.spread:g} is taken"


def _unanimous(result: Estimate) -> tuple[int, int]:
    """Count annotators all of whose votes follow, and all of whose oppose, the fitted ranking."""
    along, against = count_following(CellRows(result.small.cells), result.solution.fit.R)
    return int(np.sum((along > 0) & (against == 0))), int(np.sum((along == 0) & (against > 0)))
