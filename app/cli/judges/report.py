"""What a vote file says of its judges, as rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import polars as pl

from app.errors import BadInputError
from app.imports.formats import VoteFile
from app.imports.formats.indexing import encode
from app.rating.arrays import Mask, sum_by
from app.rating.errors import VotesError
from app.rating.fit.scale import ELO_PER_NATURAL
from app.rating.judges.agreement import Agreement, agree, agree_with_swapped
from app.rating.judges.ballots import Ballots
from app.rating.judges.board import rate_judges
from app.rating.judges.following import Followers, follow_people
from app.rating.judges.panels import NO_PANELS, Panel, Panels, try_panels
from app.rating.judges.people import NO_SCORES, PeoplesScores, learn_scores, rate_people
from app.rating.settings import LoopSettings
from app.rating.uncertainty.covariance import critical_values
from app.rating.verdict.rows import count, finite, model_rows

CLOSE = 100.0  # Elo points between two models, below which the better one wins at most 64 %
KNOWN_TO = 0.1  # half the width of an ability's interval that counts as calibrated


@dataclass(frozen=True)
class JudgesReport:
    """Fields in the order in which `judges --format json` prints them.

    Attributes
    ----------
    people : how many, how they were rated, and how they agree with each other
    judges : the most able first
    models : the judges' own leaderboard
    panels : of judges, the best order first; `enough` is the smallest that is as good within the error
    """

    settings: dict[str, Any]
    people: dict[str, Any]
    judges: Sequence[Mapping[str, Any]]
    models: Sequence[Mapping[str, Any]]
    panels: dict[str, Any]
    warnings: Sequence[Mapping[str, Any]]


def compare_judges(
    file: VoteFile, *, people: Sequence[str], families: Mapping[str, str], settings: LoopSettings,
    stage: Callable[[str], None],
) -> JudgesReport:  # fmt: skip
    """Compare the judges of a file with its people.

    Parameters
    ----------
    people : names or patterns of the people; where there are none, the file says who is a judge
    families : family by name or pattern of models and judges
    settings : of the people's leaderboard; `confidence` of every interval

    Raises
    ------
    BadInputError
        It is not said who is a person, or there are no people, or no judges.
    app.rating.errors.RatingError
        The votes have no answer.
    """
    votes = encode(file.frame)
    name = file.frame.select(pl.coalesce("question", "battle_id")).to_series()
    number = name.rank("dense").cast(pl.Int64).fill_null(-1).to_numpy()
    ballots = Ballots.of(votes, number)
    human = _find_people(file.frame, votes.annotators, people)
    stage("rating the people")
    peoples = rate_people(ballots.of_annotators(human), settings)
    stage("comparing the judges")
    judged = ballots.of_annotators(~human)
    board = rate_judges(judged, confidence=settings.confidence, base=settings.base)
    unknown, panels = list[dict[str, Any]](), NO_PANELS
    try:
        known = learn_scores(peoples)
    except VotesError as error:
        known, followers = NO_SCORES, Followers.unknown(board.lean, board.lean_se)
        unknown.append({"board": "people", "code": "no-order", "detail": str(error), "models": []})
    else:
        followers = follow_people(judged, known, _own_families(votes.annotators, votes.models, families))
        stage("trying panels")
        able = np.argsort(-np.nan_to_num(followers.ability, nan=-np.inf), kind="stable")
        panels = try_panels(judged, [int(k) for k in able if not human[k]], known)
    compared = _Compared(ballots, human, known, followers, settings.confidence)
    costs = _costs(file.frame, votes.annotators)
    rows = [
        compared.row(int(k), votes.annotators[k], families) | {"cost": costs.get(votes.annotators[k])}
        for k in np.flatnonzero(~human)
    ]
    notices = [("people", one) for one in peoples.diagnostics.warnings]
    notices += [("judges", one) for one in board.rating.diagnostics.warnings]
    return JudgesReport(
        settings={"confidence": settings.confidence, "min_votes": settings.min_votes, "close": CLOSE},
        people=compared.people_row() | {
            "method": peoples.settings.method, "order_certainty": finite(panels.certainty),
            "votes": count(float(peoples.cells.n_votes)), "models": len(known.models),
        },
        judges=sorted(rows, key=lambda row: (row["ability"] is None, -(row["ability"] or 0.0), row["annotator"])),
        models=model_rows(board.rating, votes.models),
        panels=_panel_rows(panels, votes.annotators, costs),
        warnings=[*unknown, *({"board": whose, **one.named(votes.models)} for whose, one in notices)],
    )  # fmt: skip


def _find_people(frame: pl.DataFrame, names: Sequence[str], patterns: Sequence[str]) -> Mask:
    """Return which annotators are people, shape (n_annotators,)."""
    human = np.array([matches(name, patterns) for name in names], dtype=bool)
    if not patterns:
        kinds = frame.select("annotator", "annotator_kind").unique().sort("annotator")
        if kinds["annotator_kind"].null_count() or len(kinds) != len(names):
            raise BadInputError(
                "it is not said who is a person: name them, --people ANNOTATOR,… (or a pattern, 'rater-*'), or give "
                "every vote the column annotator_kind, human or judge, the same for all votes of an annotator"
            )
        human = (kinds["annotator_kind"] == "human").to_numpy()
    if human.all() or not human.any():
        named = ", ".join(names[:10])
        raise BadInputError(f"there are no {'judges' if human.all() else 'people'} among the annotators: {named}")
    return human


def matches(name: str, patterns: Sequence[str]) -> bool:
    """Return whether a name is one of these, or fits one as a pattern with * and ?."""
    return any(name == pattern or fnmatchcase(name, pattern) for pattern in patterns)


def _family(name: str, families: Mapping[str, str]) -> str | None:
    return families.get(name) or next((family for key, family in families.items() if fnmatchcase(name, key)), None)


def _own_families(annotators: Sequence[str], models: Sequence[str], families: Mapping[str, str]) -> Mask:
    """Return which models are of an annotator's own family, shape (n_annotators, n_models)."""
    theirs = np.array([_family(name, families) or "" for name in annotators])
    of_models = np.array([_family(name, families) or "" for name in models])
    own: Mask = (theirs[:, None] == of_models) & (theirs[:, None] != "")
    return own


def _costs(frame: pl.DataFrame, names: Sequence[str]) -> dict[str, float]:
    """Return what the votes of each annotator cost; without an entry where no vote says it."""
    cost = frame.select("annotator", pl.col("cost").cast(pl.Float64, strict=False)).drop_nulls()
    sums = dict(cost.group_by("annotator").sum().iter_rows())
    return {name: sums[name] for name in names if name in sums}


class _Compared:
    """The judges beside the people, arrays of shape (n_annotators,)."""

    def __init__(
        self, ballots: Ballots, human: Mask, known: PeoplesScores, followers: Followers, confidence: float
    ) -> None:
        v, size = ballots.votes, len(ballots.votes.annotators)
        self.human, self.followers, self.confidence = human, followers, confidence
        score = np.full(len(v.models), np.nan)
        score[known.models] = ELO_PER_NATURAL * known.score
        gap, every = np.abs(score[v.model_a] - score[v.model_b]), np.ones(len(v.outcome), dtype=bool)
        self.pairs = agree(ballots, human, every, by_battle=False)
        self.agreement, self.by = agree(ballots, human, every, by_battle=True), "battle"
        if not self.agreement.compared[~human].any():
            self.agreement, self.by = self.pairs, "pair"
        self.close, self.far = (
            agree(ballots, human, where, by_battle=self.by == "battle") for where in (gap < CLOSE, gap >= CLOSE)
        )
        self.consistent, self.swapped = agree_with_swapped(ballots)
        self.left, self.battles = ballots.left_share(), sum_by(v.annotator, ballots.weight, size)
        self.votes = np.bincount(v.annotator, minlength=size)
        self.people_votes = float(self.battles[human].sum())

    def row(self, k: int, name: str, families: Mapping[str, str]) -> dict[str, Any]:
        """Return a judge's row, without the cost."""
        f, points = self.followers, ELO_PER_NATURAL
        return {
            "annotator": name,
            **self._interval("ability", f.ability[k], f.ability_se[k], f.freedom[k]),
            **self._interval("side_lean", points * f.lean[k], points * f.lean_se[k], f.lean_freedom[k]),
            "left_share": finite(self.left[k]),
            "agreement": finite(self.agreement.share[k]),
            "agreement_decided": finite(self.agreement.decided[k]),
            "agreement_close": finite(self.close.share[k]),
            "agreement_far": finite(self.far.share[k]),
            "agreement_by": self.by,
            "agreement_by_pair": finite(self.pairs.share[k]),
            "compared": count(self.agreement.compared[k]),
            "swap_consistency": finite(self.consistent[k]),
            "swapped_battles": count(self.swapped[k]),
            "taste_sd": finite(points * f.taste_sd[k]),
            "family": _family(name, families),
            **self._interval("own_family", points * f.preference[k], points * f.preference_se[k], f.freedom[k]),
            "calibration_votes": self._calibration_votes(k),
            "votes": int(self.votes[k]),
            "battles": count(self.battles[k]),
        }

    def people_row(self) -> dict[str, Any]:
        """Return what the people reach among themselves."""
        return {
            "annotators": int(self.human.sum()),
            "agreement": self._among_people(self.agreement),
            "agreement_decided": self._among_people(self.agreement, decided=True),
            "agreement_close": self._among_people(self.close),
            "agreement_far": self._among_people(self.far),
            "agreement_by": self.by,
            "agreement_by_pair": self._among_people(self.pairs),
        }

    def _among_people(self, found: Agreement, *, decided: bool = False) -> float | None:
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

    def _calibration_votes(self, k: int) -> int | None:
        """Return how many votes of people would make the ability known to ± .1; None where no number would."""
        f = self.followers
        people, rest = f.people_se[k] ** 2, f.ability_se[k] ** 2 - f.people_se[k] ** 2
        allowed = (KNOWN_TO / self._reach(f.freedom[k])) ** 2 - rest
        return int(np.ceil(self.people_votes * people / allowed)) if allowed > 0.0 else None


def _panel_rows(panels: Panels, names: Sequence[str], costs: Mapping[str, float]) -> dict[str, Any]:
    def row(panel: Panel) -> dict[str, Any]:
        judges = [names[k] for k in panel.judges]
        cost = sum(costs[name] for name in judges) if all(name in costs for name in judges) else None
        return {
            "judges": judges,
            "agreement": panel.agreement,
            "right": panel.right,
            "reversed": panel.reversed,
            "cost": cost,
        }

    return {
        "enough": row(panels.enough)["judges"] if panels.enough else None,
        "pairs": panels.pairs,
        "error": finite(panels.error),
        "tried": [row(panel) for panel in panels.tried],
    }
