"""What a snapshot keeps of the evidence on an annotator."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from app.rating.detection.evidence import ABOUT_MODELS
from app.rating.loop.results import Rating

WORTH_KEEPING = 1.0
"""log10 of the strongest ratio from which it is kept of annotators whom nothing marks: ten times likelier."""
_SIDES = ("left", "right")


def evidence_rows(rating: Rating, model_names: Mapping[int, str]) -> list[dict[str, Any] | None]:
    """Return for every annotator what the tests say, as JSON, or None where there is nothing to say.

    rule: by what the annotator is marked, "ability" or a test, or null; held: only because they were before; strength:
    log10 of the strongest test's likelihood ratio against honesty; tests: the same of every test that speaks against
    the annotator; about: of which model, or side, a test speaks.

    Parameters
    ----------
    model_names : by index in the rating
    """
    rows: list[dict[str, Any] | None] = [None] * len(rating.annotators.votes)
    found = rating.evidence
    if found is None:
        tests, table = [], np.full((0, len(rows)), -np.inf)
    else:
        tests = list(found.log_ratio)
        table = np.stack([found.log_ratio[test] for test in tests]) / math.log(10.0)
    strength = table.max(axis=0, initial=-np.inf)
    for k in np.flatnonzero((strength >= WORTH_KEEPING) | (rating.annotators.rule != "")).tolist():
        speaking = [test for test, ratio in zip(tests, table[:, k].tolist(), strict=True) if ratio > 0]
        about = {
            test: name
            for test in speaking
            if found is not None and (name := _about(test, int(found.about[test][k]), model_names)) is not None
        }
        rows[k] = {
            "rule": str(rating.annotators.rule[k]) or None,
            "held": bool(rating.annotators.held[k]),
            "strength": round(float(strength[k]), 3) if math.isfinite(strength[k]) else None,
            "tests": {test: round(float(table[tests.index(test), k]), 3) for test in speaking},
            "about": about,
        }
    return rows


def count_rules(rating: Rating) -> dict[str, dict[str, int]]:
    """Count, by what marks them, the annotators that the rule flags or excludes, and their votes."""
    crowd = rating.annotators
    marked = np.isin(crowd.standing, ("flagged", "excluded"))
    return {
        str(rule): {
            "annotators": int((marked & (crowd.rule == rule)).sum()),
            "votes": int(crowd.votes[marked & (crowd.rule == rule)].sum()),
        }
        for rule in np.unique(crowd.rule[marked])
    }


def _about(test: str, index: int, model_names: Mapping[int, str]) -> str | None:
    if index < 0:
        return None
    if test in ABOUT_MODELS:
        return model_names[index]
    return _SIDES[index] if test == "side" else None
