"""What a vote file says of its judges, as rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import polars as pl

from app.errors import BadInputError
from app.imports.formats.measures import ARENA, read_known_features
from app.imports.formats.whole import VoteFile
from app.rating.arrays import Mask, finite
from app.rating.estimators.tables import read_table
from app.rating.judges.ballots import Ballots
from app.rating.judges.comparison import CLOSE, FEWEST_IN_CATEGORY, Row, compare
from app.rating.judges.planning import Prices, VotePlan, plan_votes
from app.rating.judges.self_preference import Families
from app.rating.judges.sharpening import Sharpened
from app.rating.settings import SIDE, LoopSettings
from app.rating.verdict.rating import Rating
from app.rating.verdict.rows import count, model_rows
from app.rating.votes.indexed import IndexedVotes


@dataclass(frozen=True)
class JudgesReport:
    """What `judges --format json` prints, in this order: a `JudgeComparison`, with families, costs and the plan.

    `people_models`, `sharpened`: model, score, lower and upper, of the people's leaderboard, and of people and judges
    together; the second is null where judges cannot sharpen the first, and a warning says why.
    `people_votes_worth`: how many votes of people alone would tell the models' differences as well as the second.
    `sharpening`: the battles that judges saw, and how many of them people too; the p of the test that these are a
    random part, and whether inverse propensities make them one; and how much each judge says.
    """

    settings: dict[str, Any]
    people: Row
    judges: Sequence[Row]
    models: Sequence[Mapping[str, Any]]
    people_models: Sequence[Row]
    sharpened: Sequence[Row] | None
    people_votes: int | float
    people_votes_worth: float | None
    sharpening: Row
    plan: VotePlan | None
    panels: Row
    warnings: Sequence[Row]


def compare_judges(
    file: VoteFile, *, people: Sequence[str], families: Mapping[str, str], settings: LoopSettings,
    style: Sequence[str], plan: tuple[float, Prices | None] | None, stage: Callable[[str], None],
) -> JudgesReport:  # fmt: skip
    """Compare the judges of a file with its people.

    `people`: names or patterns of the people; where there are none, the file says who is a judge, and may have no
    people.
    `families`: family by name or pattern of models and judges.
    `settings`: of the people's leaderboard; `confidence` of every interval.
    `style`: features that judges may like, whose likings their own leaderboard takes out; by default those of
    LMArena that the file has, which it leaves.
    `plan`: the width that votes are planned for, and prices.
    Raises BadInputError: it is not said who is a person, or no annotator has such a name, or there are no judges, or
    no votes of people to plan, or no vote has a feature.
    Raises app.rating.errors.RatingError: the votes have no answer.
    """
    persons = _find_people(file.frame, people)
    if plan and not persons:
        raise BadInputError("--plan needs votes of people, and all are of judges")
    file = file.with_first_votes(persons)
    votes = read_table(file.table(halves=False)).votes
    votes, human = replace(votes, outcome=file.verdicts()), np.isin(votes.annotators, persons)
    name = file.frame.select(pl.coalesce("question", "battle_id")).to_series()
    number = name.rank("dense").cast(pl.Int64).fill_null(-1).to_numpy()
    if SIDE in style:
        raise BadInputError("--style has no side: the lean of every judge to the left is shown without it")
    features = read_known_features(file.frame, style or list(ARENA))
    if missing := [name for name in style if features is None or name not in features.names]:
        raise BadInputError(f"the feature {missing[0]} needs the columns {missing[0]}_a and {missing[0]}_b")

    def named(names: Sequence[str]) -> list[str]:
        return [_family(name, families) or "" for name in names]

    found = compare(
        replace(Ballots.of(votes, number), style=features), human, settings,
        families=Families(*map(named, (votes.annotators, votes.models))),
        categories=_categories(file.frame, votes.annotator, human), declared=bool(style), stage=stage,
    )  # fmt: skip
    costs = _costs(file.frame, votes.annotators)
    judges = [
        row | {"family": _family(row["annotator"], families), "cost": costs.get(row["annotator"])}
        for row in found.judges
    ]
    tried = [
        row | {"cost": sum(costs[one] for one in row["judges"]) if costs.keys() >= set(row["judges"]) else None}
        for row in found.panels["tried"]
    ]
    return JudgesReport(
        {"confidence": settings.confidence, "min_votes": settings.min_votes, "close": CLOSE},
        found.people, judges, found.models, **_sharpened_rows(found.sharpened, votes),
        plan=None if plan is None or found.sharpened is None else plan_votes(found.sharpened, *plan),
        panels=found.panels | {"tried": tried}, warnings=found.warnings,
    )  # fmt: skip


def _sharpened_rows(found: Sharpened | None, votes: IndexedVotes) -> Row:
    """Return the fields of the report on people and judges together."""
    if found is None:
        account: Row = {
            "judged_battles": 0,
            "people_battles": 0,
            "random_part_p": None,
            "by_propensity": False,
            "judges": [],
        }
        return {
            "people_models": [], "sharpened": None, "people_votes": 0, "people_votes_worth": None, "sharpening": account
        }  # fmt: skip

    def rows(rating: Rating) -> list[Row]:
        return [
            {name: row[name] for name in ("model", "score", "lower", "upper")}
            for row in model_rows(rating, votes.models)
        ]

    weight = [] if found.mix is None else found.mix.weight.tolist()
    return {
        "people_models": rows(found.people),
        "sharpened": None if found.rating is None else rows(found.rating),
        "people_votes": count(found.votes),
        "people_votes_worth": finite(found.worth),
        "sharpening": found.account()
        | {
            "judges": [
                {"annotator": votes.annotators[k], "weight": one} for k, one in zip(found.judges, weight, strict=False)
            ]
        },
    }


def _find_people(frame: pl.DataFrame, patterns: Sequence[str]) -> list[str]:
    """Return the annotators who are people."""
    names = frame["annotator"].unique().sort().to_list()
    human = [name for name in names if matches(name, patterns)]
    if not patterns:
        kinds = frame.select("annotator", "annotator_kind").unique().sort("annotator")
        if kinds["annotator_kind"].null_count() or len(kinds) != len(names):
            raise BadInputError(
                "it is not said who is a person: name them, --people ANNOTATOR,… (or a pattern, 'rater-*'), or give "
                "every vote the column annotator_kind, human or judge, the same for all votes of an annotator"
            )
        human = kinds.filter(pl.col("annotator_kind") == "human")["annotator"].to_list()
    if names and (len(human) == len(names) or (patterns and not human)):
        named = ", ".join(names[:10])
        raise BadInputError(f"there are no {'judges' if human else 'people'} among the annotators: {named}")
    return human


def matches(name: str, patterns: Sequence[str]) -> bool:
    """Return whether a name is one of these, or fits one as a pattern with * and ?."""
    return any(name == pattern or fnmatchcase(name, pattern) for pattern in patterns)


def _family(name: str, families: Mapping[str, str]) -> str | None:
    return families.get(name) or next((family for key, family in families.items() if fnmatchcase(name, key)), None)


def _categories(frame: pl.DataFrame, annotator: np.ndarray[Any, Any], human: Mask) -> dict[str, Mask]:
    """Return the votes of each category that has 30 votes of judges, by name."""
    has = "category" in frame.columns
    named = frame.select(pl.when(pl.col("category").is_not_null()).then(pl.concat_list("category")) if has else "tags")
    lists = named.to_series()
    judged = lists.filter(pl.Series(~human[annotator])).explode().drop_nulls().value_counts(sort=True)
    often = judged.filter(pl.col("count") >= FEWEST_IN_CATEGORY)[lists.name].sort()
    return {one: lists.list.contains(one).fill_null(value=False).to_numpy() for one in often}


def _costs(frame: pl.DataFrame, names: Sequence[str]) -> dict[str, float]:
    """Return what the votes of each annotator cost, those that do not say it as much as the others do on average.

    Without an entry where no vote says it. The pairs of a ranking are one vote.
    """
    cost, share = pl.col("cost").cast(pl.Float64, strict=False), 1.0 / pl.col("of_ranking").fill_null(1)
    mean = (cost * share).sum() / share.filter(cost.is_not_null()).sum()
    said = frame.group_by("annotator").agg(cost=mean * share.sum(), known=cost.count()).filter(pl.col("known") > 0)
    sums = dict(said.select("annotator", "cost").iter_rows())
    return {name: sums[name] for name in names if name in sums}
