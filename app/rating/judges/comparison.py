"""Judges beside people: what is known of each judge, of the people, and of panels of judges, as rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr

from app.rating.arrays import Floats, Indices, Mask, finite, sum_by
from app.rating.errors import RatingError, VotesError
from app.rating.judges.ballots import AgreementByVotes, Ballots, agree, agree_with_swapped
from app.rating.judges.board import fit_leans, rate_judges
from app.rating.judges.following import Followers, OwnFamily, find_liking, follow_people
from app.rating.judges.peoples_scores import NO_SCORES, PeoplesScores, learn_scores, rate_people
from app.rating.judges.self_preference import Families, compare_families
from app.rating.judges.sharpening import Sharpened, sharpen
from app.rating.settings import LoopSettings
from app.rating.uncertainty.freedom import critical_values
from app.rating.units import ELO_PER_NATURAL
from app.rating.verdict.rating import Rating
from app.rating.verdict.rows import count, model_rows

MOST_TRIED = 4  # judges, up to which every panel is tried; of more the best panel grows judge by judge
MOST_GROWN = 8
SURE = 0.975  # probability from which the people's votes say which of two models is better


class Panel(NamedTuple):
    """Some judges' own leaderboard beside the people's.

    Attributes
    ----------
    judges : indices
    agreement : share of the pairs of models that both put in the same order
    right : share of pairs that the judges are expected to have right, since the people's order is uncertain
    reversed : pairs that the people's votes put in order with 95 % confidence, and the judges in the other order
    """

    judges: tuple[int, ...]
    agreement: float
    right: float
    reversed: int


class Panels(NamedTuple):
    """Panels of judges, the best order first.

    Attributes
    ----------
    tried : every panel
    enough : the panel of fewest judges that is right in as many pairs as the best one, within an error; None without
        panels
    certainty : share of pairs that the people's own order is expected to have right
    error : of these shares, because the people's order is uncertain
    pairs : of models
    """

    tried: list[Panel]
    enough: Panel | None
    certainty: float
    error: float
    pairs: int


NO_PANELS = Panels([], None, float("nan"), float("nan"), 0)


def try_panels(ballots: Ballots, judges: list[int], known: PeoplesScores) -> Panels:
    """Fit the own leaderboards of panels of these judges, and compare their orders with the people's.

    Panels whose votes leave a model without a score are left out. Of equal panels the one with earlier judges is first.
    """
    i, j = np.triu_indices(len(known.models), 1)
    gap, variance = known.score[i] - known.score[j], np.diag(known.covariance)
    spread = variance[i] + variance[j] - 2.0 * known.covariance[i, j]
    sure = ndtr(np.abs(gap) / np.sqrt(np.maximum(spread, 1e-300)))
    error = float(np.sqrt((sure * (1.0 - sure)).sum())) / len(i)
    tried, best, every = list[Panel](), Panel((), 0.0, 0.0, 0), len(judges) <= MOST_TRIED
    for size in range(1, min(len(judges), MOST_GROWN) + 1):
        beside = [k for k in judges if k not in best.judges]
        panels = combinations(judges, size) if every else ((*best.judges, k) for k in beside)
        found = [_compare(ballots, tuple(one), known.models, gap, sure) for one in panels]
        tried += (scored := [one for one in found if one is not None])
        better = max(scored, key=lambda one: one.right, default=best)
        if not every and better.right <= best.right:
            break
        best = better
    ranked = sorted(tried, key=lambda one: (-one.right, len(one.judges)))
    within = [one for one in ranked if one.right >= ranked[0].right - error]
    enough = min(within, key=lambda one: (len(one.judges), -one.right), default=None)
    return Panels(ranked, enough, float(sure.mean()), error, len(i))


def _compare(ballots: Ballots, judges: tuple[int, ...], models: Indices, gap: Floats, sure: Floats) -> Panel | None:
    """Return the panel beside the people's gaps of all pairs of these models; None where one of them has no score."""
    who = np.isin(np.arange(len(ballots.votes.annotators)), judges)
    try:
        fitted = fit_leans(ballots.of_annotators(who), LoopSettings(method="m-elo", min_votes=0))
    except RatingError:
        return None
    i, j = np.triu_indices(len(models), 1)
    ours = fitted.found.natural_scores()[models]
    if not np.isfinite(ours).all():
        return None
    against = np.sign(ours[i] - ours[j]) != np.sign(gap)
    right = float(np.where(against, 1.0 - sure, sure).mean())
    return Panel(judges, 1.0 - float(against.mean()), right, int((against & (sure > SURE)).sum()))


CLOSE = 100.0  # Elo points between two models, below which the better one wins at most 64 %
BANDS = (0.0, 50.0, 100.0, 200.0, np.inf)  # of such gaps
KNOWN_TO = 0.1  # half the width of an ability's interval that counts as calibrated
FEWEST_IN_CATEGORY = 30  # votes of a judge
Row = dict[str, Any]


class JudgeComparison(NamedTuple):
    """The judges beside the people.

    Attributes
    ----------
    people : how many, how they were rated, and how they agree with each other
    judges : the most able first
    models : the judges' own leaderboard
    sharpened : the people's own leaderboard, and that of people and judges together; None without people
    panels : of judges, the best order first; `enough` is the smallest that is as good within the error
    """

    people: Row
    judges: list[Row]
    models: Sequence[Mapping[str, Any]]
    sharpened: Sharpened | None
    panels: Row
    warnings: list[Row]


def compare(
    ballots: Ballots, human: Mask, settings: LoopSettings, *,
    families: Families | None = None, categories: Mapping[str, Mask] | None = None, declared: bool = False,
    stage: Callable[[str], None] = lambda _: None,
) -> JudgeComparison:  # fmt: skip
    """Compare judges with people; without people with each other.

    Parameters
    ----------
    human : which annotators are people, shape (n_annotators,)
    settings : of the people's leaderboard; `confidence` of every interval
    families : of judges and models, where some are known
    categories : name → votes of the category, shape (n_votes,)
    declared : whether the judges' own leaderboard takes out their likings for the ballots' style; panels' never do

    Raises
    ------
    RatingError
        The votes have no answer.
    """
    names, models = ballots.votes.annotators, ballots.votes.models
    families = families or Families([""] * len(names), [""] * len(models))
    stage("rating the people")
    peoples = rate_people(ballots.of_annotators(human), settings) if human.any() else None
    stage("comparing the judges")
    judged = ballots.of_annotators(~human)
    plain = replace(judged, style=None)
    board = rate_judges(judged if declared else plain, replace(settings, anchor=None))
    unknown, panels = list[Row](), NO_PANELS
    try:
        known = _learn_scores(peoples)
    except VotesError as error:
        known, followers = NO_SCORES, Followers.unknown(board.lean[:, 0], board.lean_se[:, 0])
        unknown.append({"board": "people", "code": "no-order", "detail": str(error), "models": []})
    else:
        followers = follow_people(judged, known, families.own)
        stage("trying panels")
        able = np.argsort(-np.nan_to_num(followers.ability, nan=-np.inf), kind="stable")
        panels = try_panels(plain, [int(k) for k in able if not human[k]], known)
    stage("sharpening the people's leaderboard")
    sharpened = None if peoples is None else sharpen(peoples, ballots, human)
    compared = _Compared(ballots, human, known, followers, settings.confidence)
    by_judges = compare_families(judged, families)
    rows = {int(k): compared.row(int(k), names[k], by_judges) for k in np.flatnonzero(~human)}
    people = compared.people_row() | {
        "method": peoples and peoples.settings.method, "order_certainty": finite(panels.certainty),
        "votes": count(float(peoples.cells.n_votes)) if peoples else 0, "models": len(known.models),
    }  # fmt: skip
    for name, where in (categories or {}).items():
        compared.add_category(name, where, rows, people)
    if ballots.style is not None and len(known.models):
        compared.add_style(ballots.style.names, rows, people)
    notices = [("people", one) for one in (peoples.diagnostics.warnings if peoples else ())]
    notices += [("judges", one) for one in board.rating.diagnostics.warnings]
    notices += [("people+judges", sharpened.notice)] if sharpened and sharpened.notice else []
    return JudgeComparison(
        people,
        sorted(rows.values(), key=lambda row: (row["ability"] is None, -(row["ability"] or 0.0), row["annotator"])),
        model_rows(board.rating, models),
        sharpened,
        _panel_rows(panels, names),
        [*unknown, *({"board": whose, **one.named(models)} for whose, one in notices)],
    )


def _learn_scores(peoples: Rating | None) -> PeoplesScores:
    if peoples is None:
        raise VotesError("no vote is by a person: the judges are compared with each other alone", "no-votes")
    return learn_scores(peoples)


class _Compared:
    """The judges beside the people, arrays of shape (n_annotators,)."""

    def __init__(
        self, ballots: Ballots, human: Mask, known: PeoplesScores, followers: Followers, confidence: float
    ) -> None:
        v, size = ballots.votes, len(ballots.votes.annotators)
        self.ballots, self.human, self.known = ballots, human, known
        self.followers, self.confidence = followers, confidence
        score = np.full(len(v.models), np.nan)
        score[known.models] = ELO_PER_NATURAL * known.score
        gap, every = np.abs(score[v.model_a] - score[v.model_b]), np.ones(len(v.outcome), dtype=bool)
        self.pairs = agree(ballots, human, every, by_battle=False)
        self.agreement, self.by = agree(ballots, human, every, by_battle=True), "battle"
        if not self.agreement.compared[~human].any():
            self.agreement, self.by = self.pairs, "pair"
        self.agreements = {
            "agreement": self.agreement, "agreement_close": self._agree(gap < CLOSE),
            "agreement_far": self._agree(gap >= CLOSE), "agreement_by_pair": self.pairs,
        }  # fmt: skip
        self.bands = [
            (low, high, self._agree(where := (gap >= low) & (gap < high)), ballots.where(where).left_share())
            for low, high in pairwise(BANDS)
        ]
        self.consistent, self.swapped = agree_with_swapped(ballots)
        self.left, self.battles = ballots.left_share(), sum_by(v.annotator, ballots.weight, size)
        self.votes = np.bincount(v.annotator, minlength=size)
        self.people_votes = float(self.battles[human].sum())

    def row(self, k: int, name: str, by_judges: OwnFamily) -> Row:
        """Return a judge's row."""
        f, points = self.followers, ELO_PER_NATURAL
        return {
            "annotator": name,
            **self._interval("ability", f.ability[k], f.ability_se[k], f.freedom[k]),
            **self._interval("side_lean", points * f.lean[k], points * f.lean_se[k], f.lean_freedom[k]),
            "left_share": finite(self.left[k]),
            **{name: finite(found.share[k]) for name, found in self.agreements.items()},
            "agreement_decided": finite(self.agreement.decided[k]),
            "agreement_by": self.by,
            "compared": count(self.agreement.compared[k]),
            "by_gap": [
                _band(low, high, finite(found.share[k]), found.compared[k]) | {"left_share": finite(left[k])}
                for low, high, found, left in self.bands
            ],
            "by_category": [],
            "style": [],
            "swap_consistency": finite(self.consistent[k]),
            "swapped_battles": count(self.swapped[k]),
            "taste_sd": finite(points * f.taste_sd[k]),
            **self._own_family("own_family", f.own_family, k),
            **self._own_family("own_family_by_judges", by_judges, k),
            "calibration_votes": self._calibration_votes(k),
            "votes": int(self.votes[k]),
            "battles": count(self.battles[k]),
        }

    def people_row(self) -> Row:
        """Return what the people reach among themselves."""
        return {
            "annotators": int((self.human & (self.votes > 0)).sum()),
            **{name: self._among_people(found) for name, found in self.agreements.items()},
            "agreement_decided": self._among_people(self.agreement, decided=True),
            "agreement_by": self.by,
            "by_gap": [
                _band(low, high, self._among_people(found), float(found.compared[self.human].sum()))
                for low, high, found, _ in self.bands
            ],
            "by_category": [],
            "style": [],
        }

    def add_category(self, name: str, where: Mask, rows: Mapping[int, Row], people: Row) -> None:
        """Add a category to the rows of the people, and of the judges with 30 votes in it."""
        agreement, inside = self._agree(where), self.ballots.where(where)
        votes = np.bincount(inside.votes.annotator, minlength=len(self.human))
        f = Followers.unknown(*np.full((2, len(votes)), np.nan))
        if len(self.known.models):
            f = follow_people(inside.of_annotators(~self.human), self.known)
        for k, row in rows.items():
            if votes[k] >= FEWEST_IN_CATEGORY:
                ability = self._interval("ability", f.ability[k], f.ability_se[k], f.freedom[k])
                share = {"agreement": finite(agreement.share[k]), "compared": count(agreement.compared[k])}
                row["by_category"].append({"category": name, **ability, **share, "votes": int(votes[k])})
        share = {"agreement": self._among_people(agreement), "votes": int(votes[self.human].sum())}
        people["by_category"].append({"category": name, **share})

    def add_style(self, names: Sequence[str], rows: Mapping[int, Row], people: Row) -> None:
        """Add what a standard deviation of each feature is worth to each judge, and to the people together."""
        v = self.ballots.votes
        whose = np.where(self.human[v.annotator], len(self.human), v.annotator)  # all people as one more
        together = replace(self.ballots, votes=replace(v, annotators=[*v.annotators, "people"], annotator=whose))
        found = find_liking(together, self.known, np.append(self.followers.taste_sd, 0.0))
        b, se = (ELO_PER_NATURAL * x for x in found)
        for k, row in [*rows.items(), (len(self.human), people)]:
            row["style"] += [
                {"feature": name, **self._interval("points", b[k, j], se[k, j], np.inf)}
                for j, name in enumerate(names)
                if np.isfinite(b[k, j])
            ]

    def _agree(self, where: Mask) -> AgreementByVotes:
        return agree(self.ballots, self.human, where, by_battle=self.by == "battle")

    def _among_people(self, found: AgreementByVotes, *, decided: bool = False) -> float | None:
        share = found.decided if decided else found.share
        some = self.human & np.isfinite(share)
        total = float(found.compared[some].sum())
        return float(found.compared[some] @ share[some]) / total if total else None

    def _reach(self, freedom: float) -> float:
        """Return the standard errors to either end of an interval."""
        return float(critical_values(np.array([freedom]), self.confidence)[0])

    def _interval(self, name: str, value: float, se: float, freedom: float) -> dict[str, float | None]:
        reach = self._reach(freedom)
        ends = {"": 0.0, "_lower": -reach, "_upper": reach}
        return {f"{name}{end}": finite(float(value + width * se if width else value)) for end, width in ends.items()}

    def _own_family(self, name: str, found: OwnFamily, k: int) -> dict[str, float | None]:
        preference, se = (ELO_PER_NATURAL * one[k] for one in found[:2])
        return self._interval(name, preference, se, found.freedom[k])

    def _calibration_votes(self, k: int) -> int | None:
        """Return how many votes of people would make the ability known to ± .1; None where no number would."""
        f = self.followers
        people, rest = f.people_se[k] ** 2, f.ability_se[k] ** 2 - f.people_se[k] ** 2
        allowed = (KNOWN_TO / self._reach(f.freedom[k])) ** 2 - rest
        return int(np.ceil(self.people_votes * people / allowed)) if allowed > 0.0 else None


def _band(low: float, high: float, agreement: float | None, compared: float) -> Row:
    return {"low": low, "high": finite(high), "agreement": agreement, "compared": count(compared)}


def _panel_rows(panels: Panels, names: Sequence[str]) -> Row:
    def row(panel: Panel) -> Row:
        judges = [names[k] for k in panel.judges]
        return {"judges": judges, "agreement": panel.agreement, "right": panel.right, "reversed": panel.reversed}

    return {
        "enough": row(panels.enough)["judges"] if panels.enough else None,
        "pairs": panels.pairs,
        "error": finite(panels.error),
        "tried": [row(panel) for panel in panels.tried],
    }
