"""The logs of Inspect (inspect.aisi.org.uk) in JSON: the grades that scorers gave to one model's answers."""

from collections.abc import Iterator, Mapping
from typing import Any

from app.votes.rules import OVERALL

_WORDS: Mapping[str, float] = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0, "yes": 1.0, "no": 0.0}


def is_inspect_log(record: Mapping[str, Any]) -> bool:
    """Return whether a JSON object is the log of an evaluation."""
    return isinstance(record.get("eval"), dict) and "status" in record


def read_inspect_log(log: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the grades of a log as records of the format `grades`, each with the `place` of its sample.

    A scorer is an annotator, with the model that it asks behind its name. The grades that a scorer gives by name are by
    criterion.
    """
    spec = log["eval"]
    of_scorers = [_object(one) for one in _list(_object(log.get("results")).get("scores"))]
    graders = {one.get("name"): _object(one.get("params")).get("model") for one in of_scorers}
    for sample in map(_object, _list(log.get("samples"))):
        number, epoch = sample.get("id"), sample.get("epoch", 1)
        parts = [spec.get("task"), number, *([epoch] if epoch != 1 else [])]
        for scorer, score in _object(sample.get("scores")).items():
            grader, value = graders.get(scorer), _object(score).get("value")
            for criterion, grade in value.items() if isinstance(value, dict) else [(OVERALL, value)]:
                yield {
                    "annotator": f"{scorer}/{grader}" if isinstance(grader, str) else scorer,
                    "annotator_kind": "judge",
                    "item": "/".join(map(str, parts)) if number is not None else None,
                    "criterion": criterion,
                    "model": spec.get("model"),
                    "rating": _number(grade),
                    "place": f"sample {number} of {spec.get('model')}",
                }


def _number(grade: object) -> object:
    """Return words and flags as numbers, NaN as None: such a score has no value."""
    if isinstance(grade, bool):
        return float(grade)
    if isinstance(grade, str):
        return _WORDS.get(grade, grade)
    return None if grade != grade else grade  # noqa: PLR0124  true of NaN alone


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
