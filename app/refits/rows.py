"""What a refit computed, as the rows and columns that a snapshot stores."""

import json
import math
from collections.abc import Collection, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.rating.arrays import Floats, Mask
from app.rating.settings import TASTE_TESTS
from app.rating.types.evidence import FEW_JUDGES, Evidence
from app.rating.uncertainty.results import AnnotatorEstimates, ModelEstimates
from app.rating.verdict.counted import CountedVotes
from app.rating.verdict.rows import habit_columns
from app.rating.verdict.style import HISTORY, style_rows
from app.refits.fit.interface import FitInput, FitOutput, Ids, MatchupTable
from app.snapshots.differences import pack

WORTH_KEEPING = 1.0
"""log10 of a test's ratio from which evidence on an annotator who is not flagged is kept: ten to one."""
EVEN = 0.5
"""P(a ≤ ε) of an ability that is shown at ε."""
LEAN_QUANTILE = 1.96
_SIDES = ("left", "right")


def leaderboard_rows(output: FitOutput, model_ids: Ids) -> list[dict[str, Any]]:
    """Return the models of every leaderboard, one row each."""
    return [
        {"method": name.method, "tag": name.tag, **row}
        for name, models in output.leaderboards.items()
        for row in model_rows(models, model_ids, rank_spread=name.method != "elo")
    ]


def model_rows(models: ModelEstimates, model_ids: Ids, *, rank_spread: bool = True) -> list[dict[str, Any]]:
    """Return the models of the leaderboard, one row each.

    `rank_spread`: False for a method without intervals: its best and worst rank are null.
    """
    counted = models.component >= 0
    columns = {"model_id": model_ids[counted].tolist(), "above": pack(models.sureness[np.ix_(counted, counted)])}
    for name in {field.name for field in fields(models)} - {"sureness"}:
        columns[name] = _plain(getattr(models, name)[counted])
    for name in ("best_rank", "worst_rank", "rank_set_best", "rank_set_worst", "class_rank"):
        columns[name] = [rank or None for rank in columns[name]]  # 0 without intervals, and for a model without a rank
    if not rank_spread:
        columns["best_rank"] = columns["worst_rank"] = [None] * int(counted.sum())
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def style_account(output: FitOutput) -> dict[str, Any]:
    """Return what the features are worth, and how many votes say so; empty where the policy declares none."""
    style = output.style
    if style is None:
        return {}
    worth = [] if style.found is None else style_rows(style.found.style)
    return {"style": {"features": worth, "votes": style.votes, "left_out": style.left_out}}


def weight_account(output: FitOutput) -> dict[str, float]:
    """Return how many of the votes that count do so in full, and how many weigh less, and why; together all that do."""
    return {name: round(float(votes.sum()), 1) for name, votes in _by_weight(output.counted).items()}


def _by_weight(counted: CountedVotes | None) -> dict[str, Floats]:
    return {} if counted is None else {field.name: getattr(counted, field.name) for field in fields(counted)}


def dimension_rows(output: FitOutput, names: Sequence[str], without: Collection[int] = ()) -> dict[str, dict[str, Any]]:
    """Return how the categories of each dimension differ; "" are the votes of no category.

    `without`: models that are not named.
    """
    return {
        dimension: {
            "votes": found.votes,
            "spread": found.spread,
            "outliers": [
                {**one._asdict(), "model": names[one.model]} for one in found.outliers if one.model not in without
            ],
        }
        for dimension, found in output.categories.items()
    }


def matchup_columns(matchups: MatchupTable, model_ids: Ids) -> dict[str, list[Any]]:
    """Return the pairs of models, as columns."""
    counts = ("wins_a", "ties", "wins_b")
    return {
        "model_a_id": model_ids[matchups.model_a].tolist(),
        "model_b_id": model_ids[matchups.model_b].tolist(),
        **{name: np.rint(getattr(matchups, name)).astype(np.int64).tolist() for name in counts},
        **{name: _plain(getattr(matchups, name)) for name in ("predicted", "lower", "upper")},
    }


def annotator_columns(fit_input: FitInput, output: FitOutput, model_names: Sequence[str]) -> dict[str, list[Any]]:
    """Return the annotators with votes, as columns; `model_names` in the order of the input's models."""
    annotators = output.annotators
    voted = annotators.votes > 0
    figures = ("ability", "se", "shadow_ability", "shadow_se", "probability_low")
    evidence = [
        row
        for row, here in zip(
            evidence_rows(output.annotators, output.evidence, model_names, output.counted), voted, strict=True
        )
        if here
    ]
    return {
        "annotator_id": fit_input.annotator_ids[voted].tolist(),
        **{name: _plain(getattr(annotators, name)[voted]) for name in figures},
        **{name: _plain(values[voted]) for name, values in habit_columns(output.evidence, len(voted)).items()},
        "votes": annotators.votes[voted].astype(np.int64).tolist(),
        "rule_standing": annotators.standing[voted].tolist(),
        "override": [override or None for override in fit_input.overrides[voted].tolist()],
        "strength": [row and row["strength"] for row in evidence],
        "evidence": [row and json.dumps(row) for row in evidence],
        "leans": [leans and json.dumps(leans) for leans in _leans(output, voted)],
    }


def _leans(output: FitOutput, voted: Mask) -> list[dict[str, Any] | None]:
    """Return what each feature is worth to annotators beyond the crowd, of those who have votes enough to tell."""
    if output.style is None or output.style.found is None:
        return [None] * int(voted.sum())
    style, names = output.style.found.style, ("points", "lower", "upper")
    half = LEAN_QUANTILE * style.own_se
    ends = np.stack([style.own, style.own - half, style.own + half], axis=2)
    told = np.isfinite(style.own).all(axis=1) & (output.annotators.votes >= HISTORY)
    return [
        {feature: dict(zip(names, _plain(ends[k, j]), strict=True)) for j, feature in enumerate(style.names)}
        if told[k]
        else None
        for k in np.flatnonzero(voted)
    ]


def evidence_rows(
    annotators: AnnotatorEstimates,
    evidence: Evidence | None,
    model_names: Sequence[str],
    counted: CountedVotes | None = None,
) -> list[dict[str, Any] | None]:
    """Return for every annotator the results of the tests, or None where there is nothing to say.

    rule: what flags the annotator, "ability" or a test, or null. held: whether only the release margin keeps the flag.
    strength: log10 of the strongest test's ratio, 100 times the odds against honesty. tests: the same for every test
    that speaks against the annotator. about: the model, or the side, that a test speaks of. explains: the share of the
    annotator's votes that a test explains. judges: effective number of judges behind the scores of the annotator's
    models, where it is so low that the ability does not flag. weights: where votes weigh less, how many do, and why.
    """
    rows: list[dict[str, Any] | None] = [None] * len(annotators.votes)
    log_ratios = {} if evidence is None else evidence.log_ratio
    tests = list(log_ratios)
    table = np.array([log_ratios[test] for test in tests]).reshape(len(tests), len(rows)) / math.log(10.0)
    strength = table.max(axis=0, initial=-np.inf)
    judges = np.full(len(rows), np.nan) if evidence is None else evidence.judges
    spared = (judges < FEW_JUDGES) & (annotators.probability_low >= EVEN)
    weights = _by_weight(counted)
    lighter = weights["pushed"] + weights["many"] > 0.0 if weights else np.zeros(len(rows), dtype=np.bool_)
    for k in np.flatnonzero((strength >= WORTH_KEEPING) | (annotators.rule != "") | spared | lighter).tolist():
        against = {test: round(ratio, 3) for test, ratio in zip(tests, table[:, k].tolist(), strict=True) if ratio > 0}
        about = {test: _about(evidence, test, k, model_names) for test in against}
        rows[k] = {
            "rule": str(annotators.rule[k]) or None,
            "held": bool(annotators.held[k]),
            "strength": round(float(strength[k]), 3) if math.isfinite(strength[k]) else None,
            "tests": against,
            "about": {test: name for test, name in about.items() if name is not None},
            "explains": {
                test: round(float(evidence.explained[test][k]), 3) for test in against if evidence is not None
            },
            **({"judges": round(float(judges[k]), 1)} if judges[k] < FEW_JUDGES else {}),
            **({"weights": {name: round(float(of[k]), 1) for name, of in weights.items()}} if lighter[k] else {}),
        }
    return rows


def count_rules(annotators: AnnotatorEstimates) -> dict[str, dict[str, int]]:
    """Count the annotators that each rule flags or excludes, and their votes."""
    marked = np.isin(annotators.standing, ("flagged", "excluded"))
    return {
        str(rule): {
            "annotators": int((marked & (annotators.rule == rule)).sum()),
            "votes": int(annotators.votes[marked & (annotators.rule == rule)].sum()),
        }
        for rule in np.unique(annotators.rule[marked])
    }


def _about(evidence: Evidence | None, test: str, annotator: int, model_names: Sequence[str]) -> str | None:
    index = -1 if evidence is None else int(evidence.about[test][annotator])
    if index < 0:
        return None
    if test in TASTE_TESTS:
        return model_names[index]
    return _SIDES[index] if test == "side" else None


def _plain(values: NDArray[Any]) -> list[Any]:
    """Return Python values, None where a number is not finite."""
    if not np.issubdtype(values.dtype, np.floating):
        return list(values.tolist())
    plain = values.astype(np.object_)
    plain[~np.isfinite(values)] = None
    return list(plain)
