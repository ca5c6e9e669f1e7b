"""Self-preference without people: a judge's own family beside what judges of other families say of the models."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from app.rating.arrays import Mask
from app.rating.errors import RatingError
from app.rating.judges.ballots import Ballots
from app.rating.judges.board import rate_judges
from app.rating.judges.following import OwnFamily, follow_people
from app.rating.judges.peoples_scores import learn_scores


class Families(NamedTuple):
    """Names of families, "" where it is not known.

    Attributes
    ----------
    annotators, models : shape (n_annotators,), (n_models,)
    """

    annotators: Sequence[str]
    models: Sequence[str]

    @property
    def own(self) -> Mask:
        """Which models are of an annotator's own family, shape (n_annotators, n_models)."""
        whose, of_models = np.array(self.annotators), np.array(self.models)
        own: Mask = (whose[:, None] == of_models) & (whose[:, None] != "")
        return own


def compare_families(judged: Ballots, families: Families) -> OwnFamily:
    """Compare every judge with the leaderboard of the judges of other families, as `follow_people` with people's.

    A judge's votes between a model of its own family and another are no part of such a leaderboard: there they would
    show that family's preference as the others' lack of it. A judge without a family has no part in it either.

    Parameters
    ----------
    judged : votes of judges

    Notes
    -----
    The scores are taken with their errors, and with the tastes of those judges where they are several. Of battles that
    both saw, the answers err in both, and less in the difference. Between models that the other judges call equal, a
    judge's own votes show its preference best (Yang et al., arXiv 2604.22891); the slope takes off the others' gaps.
    """
    v, own = judged.votes, families.own
    whose = np.array(families.annotators)
    partial = own[v.annotator, v.model_a] != own[v.annotator, v.model_b]
    found = np.full((3, len(whose)), np.nan)
    for family in sorted(set(families.annotators) & set(families.models) - {""}):
        others, theirs = (whose != "") & (whose != family), whose == family
        try:
            board = rate_judges(replace(judged, style=None).where(others[v.annotator] & ~partial))
            known = learn_scores(board.rating, board.shared)
        except RatingError:
            continue  # the others' votes give no order
        found[:, theirs] = np.stack(follow_people(judged.of_annotators(theirs), known, own).own_family)[:, theirs]
    return OwnFamily(*found)
